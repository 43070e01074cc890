//go:build !nogdal && linux && (amd64 || arm64)

package gdal

import (
	"strings"
	"sync"
	"testing"
)

// The text of an error belongs to the thread that dlopen failed on.
func TestDlopenErrorsHaveTexts(t *testing.T) {
	t.Parallel()
	const name = "libleat-no-such-library.so.1"
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				if _, err := dlopen(name); err == nil || !strings.HasPrefix(err.Error(), name+": cannot open shared object file") {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}
