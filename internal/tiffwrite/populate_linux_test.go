package tiffwrite

import (
	"testing"

	"github.com/klauspost/compress/flate"
)

// TestTablesAreFound fails if the compressor's fields have changed, so that populateTables does
// nothing.
func TestTablesAreFound(t *testing.T) {
	for level := 2; level <= flate.BestCompression; level++ {
		at, size := tables(newFlate(new(appender), level))
		if fast := level <= quickLevels; fast != (at != 0 && size >= 64<<10) {
			t.Errorf("level %d: %d bytes at %#x", level, size, at)
		}
	}
}
