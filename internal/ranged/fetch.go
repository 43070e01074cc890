package ranged

import (
	"sync"

	"leat/raster"
)

var _ raster.Prefetcher = (*Reader)(nil)

// Fetch starts to fetch ranges of the object, which must be ordered and disjoint, as
// driver.SortRanges returns them, and returns at once. It joins ranges that are close together and
// sends several requests at a time. The bytes stay in memory until release is called, which does
// not wait. ReadAt reports the errors. It calls skip while it holds a lock of the Reader.
func (r *Reader) Fetch(ranges []raster.Range, skip func(raster.Range) bool) (release func()) {
	spans := make([]span, 0, len(ranges))
	for _, w := range ranges {
		end := min(w.Offset+w.Bytes, r.info.Size)
		if w.Offset < 0 || end <= w.Offset {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].end() > w.Offset {
			continue // overlaps the one before; ReadAt will fetch it
		}
		spans = append(spans, span{w.Offset, end - w.Offset})
	}
	var skipSpan func(span) bool
	if skip != nil {
		skipSpan = func(s span) bool { return skip(raster.Range{Offset: s.at, Bytes: s.bytes}) }
	}
	held, err := r.acquire(spans, false, skipSpan)
	if err != nil {
		return func() {}
	}
	return sync.OnceFunc(func() { r.releaseAll(held) })
}
