package geotiff

import (
	"context"
	"fmt"
	"slices"

	"leat/raster"
)

var _ raster.Ranged = (*File)(nil)

// Ranges implements raster.Ranged. Tiles that the file does not have take nothing. Of a mask in a file of its own nothing is said.
func (f *File) Ranges(ctx context.Context, bands []int, w raster.Window, mask bool) ([]raster.Range, error) {
	if w.Width < 0 || w.Height < 0 || !f.info.Grid.Window().Contains(w) {
		return nil, fmt.Errorf("%s: window %v is not inside the raster of %d x %d pixels", f.info.Path, w, f.im.width, f.im.height)
	}
	for _, b := range bands {
		if b < 1 || b > f.im.spp {
			return nil, fmt.Errorf("%s: band %d asked for, it has %d", f.info.Path, b, f.im.spp)
		}
	}
	var planes []int
	for _, b := range bands {
		planes = f.im.addPlane(planes, b-1)
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
	return raster.SortRanges(ranges), nil
}

// addPlane adds the plane that has a band, counted from 0, to those of a read.
func (im *image) addPlane(planes []int, band int) []int {
	if !im.planar {
		band = 0
	}
	if slices.Contains(planes, band) {
		return planes
	}
	return append(planes, band)
}

// planes are all that an image has.
func (im *image) planes() []int {
	var all []int
	for i := range im.spp {
		all = im.addPlane(all, i)
	}
	return all
}

// fetch tells a reader of bytes that are far away what a read of window w will take, but for tiles that are kept, and returns what ends that.
func (im *image) fetch(ctx context.Context, w raster.Window, targets []target, keep *keeper) (release func(), err error) {
	far, ok := im.r.(raster.Fetcher)
	if !ok {
		return func() {}, nil
	}
	var planes []int
	for _, t := range targets {
		planes = im.addPlane(planes, t.band)
	}
	var kept func(plane, col, row int) bool
	if keep != nil {
		kept = func(plane, col, row int) bool {
			return keep.cache.Has(raster.TileKey{Source: im, Plane: plane, Col: col, Row: row})
		}
	}
	ranges, err := im.ranges(ctx, w, planes, kept)
	if err != nil {
		return nil, err
	}
	return far.Fetch(raster.SortRanges(ranges)), nil
}

// ranges are the pieces of the file that reading window w of some planes takes, without the tiles that skip, which may be nil, tells of.
func (im *image) ranges(ctx context.Context, w raster.Window, planes []int, skip func(plane, col, row int) bool) ([]raster.Range, error) {
	if im.unreadable != nil {
		return nil, im.unreadable
	}
	if w.Empty() || len(planes) == 0 {
		return nil, ctx.Err()
	}
	c0, c1 := w.Col/im.tileW, (w.Col+w.Width-1)/im.tileW
	r0, r1 := w.Row/im.tileH, (w.Row+w.Height-1)/im.tileH
	release := im.table.fetch(planes, r0*im.across+c0, r1*im.across+c1)
	defer release()
	var out []raster.Range
	for _, plane := range planes {
		for row := r0; row <= r1; row++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for col := c0; col <= c1; col++ {
				if skip != nil && skip(plane, col, row) {
					continue
				}
				offset, count, err := im.table.at(plane*im.table.perPlane + row*im.across + col)
				if err != nil {
					return nil, err
				}
				if im.direct() {
					offset, count = im.rowsOf(w, col, row, offset, count)
				} else {
					// As decode reads it.
					count = min(count, 2*im.tileBytes(im.tileH)+64<<10)
				}
				// A tile that is damaged is the matter of the read.
				if count = min(count, im.container.size-offset); offset >= 0 && count > 0 {
					out = append(out, raster.Range{Offset: offset, Bytes: count})
				}
			}
		}
	}
	return out, nil
}

// rowsOf is the piece of an uncompressed tile from the window's first pixel in it to its last.
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

// fetch brings the parts of the table that tell of tiles first to last of some planes, where they are far away and not known yet.
func (t *tileTable) fetch(planes []int, first, last int) (release func()) {
	far, ok := t.c.r.(raster.Fetcher)
	if !ok {
		return func() {}
	}
	var missing []raster.Range
	for _, p := range planes {
		for i := (p*t.perPlane + first) / tilesPerChunk; i <= (p*t.perPlane+last)/tilesPerChunk; i++ {
			if t.chunks[i].Load() != nil {
				continue
			}
			n := int64(min(tilesPerChunk, t.n-i*tilesPerChunk))
			for _, f := range []field{t.offsets, t.counts} {
				if f.typ != 0 {
					missing = append(missing, raster.Range{Offset: f.at + int64(i)*tilesPerChunk*int64(f.size()), Bytes: n * int64(f.size())})
				}
			}
		}
	}
	if len(missing) == 0 {
		return func() {}
	}
	return far.Fetch(raster.SortRanges(missing))
}
