package ranged

import (
	"sync"

	"leat/raster"
)

var _ raster.Fetcher = (*Reader)(nil)

// Fetch begins to bring pieces of the object, which are ordered and apart (raster.SortRanges makes them so), and returns at once: pieces that lie close together
// by one request, several at a time. They stay in memory until release, which does not wait. What goes wrong is told to those who read.
func (r *Reader) Fetch(ranges []raster.Range) (release func()) {
	spans := make([]span, 0, len(ranges))
	for _, w := range ranges {
		end := min(w.Offset+w.Bytes, r.info.Size)
		if w.Offset < 0 || end <= w.Offset {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].end() > w.Offset {
			continue // not as asked for; it is read when it is needed
		}
		spans = append(spans, span{w.Offset, end - w.Offset})
	}
	held, err := r.take(spans, false)
	if err != nil {
		return func() {}
	}
	return sync.OnceFunc(func() { r.give(held) })
}
