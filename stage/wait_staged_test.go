//go:build linux

package stage

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

func TestWaitStagedDirectoryError(t *testing.T) {
	for cause, noSpace := range map[error]bool{unix.EIO: false, unix.EMFILE: false, unix.ENOSPC: true} {
		s := small("await", 100)
		p := pool(t, t.TempDir(), Options{})
		fault.Set(func(point string) error {
			if point == "stage.write" {
				return cause
			}
			return nil
		})
		l := p.Prefetch(s, "a")
		err := l.WaitStaged(within(t, 20*time.Second))
		fault.Set(nil)
		if errors.Is(err, ErrNoSpace) != noSpace || !noSpace && (!errors.Is(err, cause) ||
			!strings.Contains(err.Error(), s.ID("a"))) {
			t.Errorf("%v: %v", cause, err)
		}
		wantBytes(t, l, s, 0)
		l.Release()
	}
}
