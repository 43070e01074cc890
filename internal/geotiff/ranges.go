package geotiff

import (
	"context"
	"slices"

	"leat/internal/driver"
	"leat/internal/tilecache"
	"leat/raster"
)

var _ raster.RangeLister = (*File)(nil)

// Ranges implements raster.RangeLister. It does not list missing tiles, nor a mask that is in a
// sidecar.
func (f *File) Ranges(ctx context.Context, bands []int, w raster.Window, mask bool) ([]raster.Range, error) {
	if err := driver.CheckRanges(f.info, bands, w); err != nil {
		return nil, err
	}
	var planes []int
	for _, b := range bands {
		planes = f.im.addPlane(planes, b-1)
	}
	if mask && f.values != nil {
		planes = f.im.planes()
	}
	ranges, err := f.im.ranges(ctx, w, planes, nil)
	if err != nil {
		return nil, err
	}
	if mask {
		for _, m := range f.masks {
			if m.r != f.im.r {
				continue
			}
			more, err := m.ranges(ctx, w, m.planes(), nil)
			if err != nil {
				return nil, err
			}
			ranges = append(ranges, more...)
		}
	}
	return driver.SortRanges(ranges), nil
}

// addPlane appends the plane of a band, counted from 0, to planes unless it is there.
func (im *image) addPlane(planes []int, band int) []int {
	if !im.planar {
		band = 0
	}
	if slices.Contains(planes, band) {
		return planes
	}
	return append(planes, band)
}

// planes returns all planes of the image.
func (im *image) planes() []int {
	var all []int
	for i := range im.spp {
		all = im.addPlane(all, i)
	}
	return all
}

// fetch starts to fetch what a read of window w needs, except kept tiles, if the file is read
// through a raster.Prefetcher. The caller must call release after the read.
func (im *image) fetch(ctx context.Context, w raster.Window, targets []target, keep *keeper) (release func(),
	err error) {
	prefetcher, ok := im.r.(raster.Prefetcher)
	if !ok {
		return func() {}, nil
	}
	var planes []int
	for _, t := range targets {
		planes = im.addPlane(planes, t.band)
	}
	if keep == nil || im.direct() {
		ranges, err := im.ranges(ctx, w, planes, nil)
		if err != nil {
			return nil, err
		}
		return prefetcher.Fetch(driver.SortRanges(ranges), nil), nil
	}
	listed := map[int64]tilecache.Key{} // by offset
	ranges, err := im.ranges(ctx, w, planes, func(plane, col, row int, offset int64) bool {
		key := tilecache.Key{Source: im, Plane: plane, Col: col, Row: row}
		listed[offset] = key
		return keep.cache.Has(key)
	})
	if err != nil {
		return nil, err
	}
	// Another read may have decoded a tile meanwhile and released its bytes: look again.
	return prefetcher.Fetch(driver.SortRanges(ranges), func(r raster.Range) bool {
		key, ok := listed[r.Offset]
		return ok && keep.cache.Has(key)
	}), nil
}

// ranges returns the ranges of the file that a read of window w of some planes needs, without the
// tiles for which skip returns true. skip may be nil.
func (im *image) ranges(ctx context.Context, w raster.Window, planes []int,
	skip func(plane, col, row int, offset int64) bool) ([]raster.Range, error) {
	if im.unreadable != nil {
		return nil, im.unreadable
	}
	if w.Empty() || len(planes) == 0 {
		return nil, ctx.Err()
	}
	c0, c1 := w.Col/im.tileW, (w.Col+w.Width-1)/im.tileW
	r0, r1 := w.Row/im.tileH, (w.Row+w.Height-1)/im.tileH
	release := im.table.fetch(planes, r0*im.tilesAcross+c0, r1*im.tilesAcross+c1)
	defer release()
	var out []raster.Range
	for _, plane := range planes {
		for row := r0; row <= r1; row++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for col := c0; col <= c1; col++ {
				offset, count, err := im.table.at(plane*im.table.perPlane + row*im.tilesAcross + col)
				if err != nil {
					return nil, err
				}
				if skip != nil && skip(plane, col, row, offset) {
					continue
				}
				if im.direct() {
					offset, count = im.rowsOf(w, col, row, offset, count)
				} else {
					// load reads no more.
					count = min(count, 2*im.tileBytes(im.tileH)+64<<10)
				}
				// The read reports damaged tiles.
				if count = min(count, im.container.size-offset); offset >= 0 && count > 0 {
					out = append(out, raster.Range{Offset: offset, Bytes: count})
				}
			}
		}
	}
	return out, nil
}

// rowsOf returns the offset and the size of an uncompressed tile's bytes from the first pixel in
// the window to the last.
func (im *image) rowsOf(w raster.Window, col, row int, offset, count int64) (int64, int64) {
	if offset < 0 || offset > im.container.size || count == 0 {
		return 0, 0
	}
	part := raster.Window{Col: col * im.tileW, Row: row * im.tileH, Width: im.tileW, Height: im.tileRows(row)}
	part = part.Intersect(w).Shift(-part.Col, -part.Row)
	pixel := int64(im.perPixel) * int64(im.size)
	first := int64(part.Row)*int64(im.rowBytes) + int64(part.Col)*pixel
	last := int64(part.Row+part.Height-1)*int64(im.rowBytes) + int64(part.Col+part.Width)*pixel
	return offset + first, min(last, count) - first
}

// fetch starts to fetch the chunks of the table for tiles first to last of some planes that are not
// loaded, if the file is read through a raster.Prefetcher.
func (t *tileTable) fetch(planes []int, first, last int) (release func()) {
	prefetcher, ok := t.c.r.(raster.Prefetcher)
	if !ok {
		return func() {}
	}
	var missing []raster.Range
	for _, p := range planes {
		for i := (p*t.perPlane + first) / tilesPerChunk; i <= (p*t.perPlane+last)/tilesPerChunk; i++ {
			if t.chunks[i].Load() != nil {
				continue
			}
			for _, f := range []field{t.offsets, t.counts} {
				n := min(tilesPerChunk, int64(min(f.count, uint64(t.n)))-int64(i)*tilesPerChunk)
				if f.typ != 0 && n > 0 {
					missing = append(missing,
						raster.Range{Offset: f.at + int64(i)*tilesPerChunk*int64(f.size()), Bytes: n * int64(f.size())})
				}
			}
		}
	}
	if len(missing) == 0 {
		return func() {}
	}
	return prefetcher.Fetch(driver.SortRanges(missing), nil)
}
