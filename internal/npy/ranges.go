package npy

import (
	"context"

	"leat/internal/driver"
	"leat/raster"
)

var _ raster.RangeLister = (*File)(nil)

// maxRanges bounds the number of ranges that one read lists.
const maxRanges = 1 << 16

// Ranges implements raster.RangeLister.
func (n *File) Ranges(ctx context.Context, bands []int, w raster.Window, _ bool) ([]raster.Range, error) {
	if err := driver.CheckRanges(&n.info, bands, w); err != nil {
		return nil, err
	}
	if w.Empty() || len(bands) == 0 {
		return nil, ctx.Err()
	}
	var out []raster.Range
	add := func(first, count int64) {
		size := int64(n.stored.Size())
		r := raster.Range{Offset: n.start + first*size, Bytes: count * size}
		// Full-width rows are adjacent and become one range.
		if k := len(out); k > 0 && out[k-1].Offset+out[k-1].Bytes == r.Offset {
			out[k-1].Bytes += r.Bytes
			return
		}
		out = append(out, r)
	}
	switch {
	case n.col != 1:
		for x := range w.Width { // of all bands, as in readColumns
			add(int64(w.Col+x)*n.col+int64(w.Row)*n.row, int64(w.Height)*n.row)
		}
	case w.Height > maxRanges/len(bands): // too many ranges: one per band, gaps included
		for _, b := range bands {
			add(int64(b-1)*n.band+int64(w.Row)*n.row+int64(w.Col), int64(w.Height-1)*n.row+int64(w.Width))
		}
	default:
		for _, b := range bands {
			for y := range w.Height {
				add(int64(b-1)*n.band+int64(w.Row+y)*n.row+int64(w.Col), int64(w.Width))
			}
		}
	}
	return driver.SortRanges(out), ctx.Err()
}
