package apply

import (
	"fmt"

	"leat/block"
	"leat/ndarray"
	"leat/raster/geotiff"
	"leat/raster/overview"
)

// place is the position of an overview tile, in tiles.
type place struct{ level, col, row int }

// markSections records where a block's overview pixels are in the spool, and returns the overview
// tiles that they complete. at is the offset of the record's data. The caller holds o.mu.
func (o *output) markSections(b block.Block, sections []section, at int64) (complete []place) {
	for _, s := range sections {
		l := o.levels[s.level]
		l.sections[b.Number] = at + int64(s.at)
		w := l.blocks.At(b.Number).Window
		across, _ := o.file.TilesAcross(s.level)
		for row := w.Row / o.tileH; row*o.tileH < w.Row+w.Height; row++ {
			for col := w.Col / o.tileW; col*o.tileW < w.Col+w.Width; col++ {
				if l.waiting[row*across+col]--; l.waiting[row*across+col] == 0 {
					complete = append(complete, place{s.level, col, row})
				}
			}
		}
	}
	return complete
}

// overviewTile assembles the tile of an overview from the pixels in the spool, for all bands, and
// encodes it.
func (e *encoding) overviewTile(lev, col, row int) error {
	o := e.o
	w := o.tileWindow(lev, col, row)
	a := ndarray.New(o.typ, o.bands, w.Height, w.Width)
	if err := o.levelPixels(lev, w, a); err != nil {
		return err
	}
	return e.spoolOverview(lev, col, row, a)
}

// levelPixels reads a window of an overview level, with all bands, from the sections in the spool.
func (o *output) levelPixels(lev int, w block.Window, a *ndarray.Array) error {
	l, size := o.levels[lev], o.typ.Size()
	firstCol, firstRow := w.Col/l.blocks.WindowWidth, w.Row/l.blocks.WindowHeight
	var buf []byte
	for r := firstRow; r*l.blocks.WindowHeight < w.Row+w.Height; r++ {
		for c := firstCol; c*l.blocks.WindowWidth < w.Col+w.Width; c++ {
			n := r*l.blocks.Across() + c
			have := l.blocks.At(n).Window
			part := have.Intersect(w)
			for band := range o.bands {
				// Read whole rows: sections are rarely wider than a tile.
				at := l.sections[n] + int64((band*have.Height+part.Row-have.Row)*have.Width*size)
				if need := part.Height * have.Width * size; cap(buf) < need {
					buf = make([]byte, need)
				}
				buf = buf[:part.Height*have.Width*size]
				if _, err := o.spool.f.ReadAt(buf, at); err != nil {
					return fmt.Errorf("%s: reading overview pixels back: %w", o.spool.path, err)
				}
				dst := a.At(band)
				for y := range part.Height {
					from := (y*have.Width + part.Col - have.Col) * size
					to := dst.Offset + (part.Row-w.Row+y)*dst.Strides[0] + (part.Col-w.Col)*size
					copy(dst.Data[to:to+part.Width*size], buf[from:])
				}
			}
		}
	}
	return nil
}

// spoolOverview encodes and spools one tile of an overview level from its pixels of all bands.
func (e *encoding) spoolOverview(lev, col, row int, a *ndarray.Array) error {
	o, r := e.o, &e.rec
	r.data, r.meta = r.data[:0], r.meta[:0]
	part := block.Window{Width: a.Shape[2], Height: a.Shape[1]}
	type done struct{ index, at, length int }
	var tiles []done
	coding, final := o.chooser.coding()
	for plane := range o.file.Planes() {
		e.gather(a, plane, part)
		at := len(r.data)
		var err error
		if r.data, err = e.encoder(coding).Encode(r.data, e.pixels); err != nil {
			return err
		}
		tiles = append(tiles, done{o.file.TileIndex(lev, plane, col, row), at, len(r.data) - at})
	}
	for _, t := range tiles {
		r.meta = appendTileEntry(r.meta, t.index, t.length, final)
	}
	at, err := o.spool.append(recordOverview, tileNumber(lev, tiles[0].index), r.meta, r.data)
	if err != nil {
		return spoolError(o.spec.label(), o.spool.path, err)
	}
	for _, t := range tiles {
		o.levels[lev].tiles[t.index] = tile{geotiff.TileRef{Offset: at + int64(t.at), Bytes: int64(t.length)}, final}
	}
	return nil
}

// tileNumber returns the number of a tile's record.
func tileNumber(level, index int) uint64 { return uint64(level)<<48 | uint64(index) }

// buildCoarseOverviews makes the levels that are too coarse to be made block by block, each from
// the level before. They are at most a few thousand pixels a side.
func (e *encoding) buildCoarseOverviews() error {
	o := e.o
	var before *ndarray.Array // the whole level before
	for i, l := range o.levels {
		if i == 0 || l.sections != nil {
			continue
		}
		if before == nil {
			s := o.file.Size(i - 1)
			before = ndarray.New(o.typ, o.bands, s.Height, s.Width)
			if err := o.levelPixels(i-1, block.Window{Width: s.Width, Height: s.Height}, before); err != nil {
				return err
			}
		}
		from, factor := before, l.factor/o.levels[i-1].factor
		all := ndarray.New(o.typ, o.bands, l.size.Height, l.size.Width)
		e.readAlpha(from, block.Window{Width: from.Shape[2], Height: from.Shape[1]})
		for band := range o.bands {
			src := overview.Plane{Type: o.typ, Width: from.Shape[2], Height: from.Shape[1], Stride: from.Shape[2],
				Data: from.At(band).Raw(), Mask: e.maskFor(band)}
			if err := overview.Reduce(o.spec.OverviewMethod, all.At(band).Raw(), src, factor, o.nodata); err != nil {
				return err
			}
		}
		across, down := o.file.TilesAcross(i)
		for t := range across * down {
			w := o.tileWindow(i, t%across, t/across)
			part := &ndarray.Array{Type: o.typ, Data: all.Data, Strides: all.Strides,
				Shape:  []int{o.bands, w.Height, w.Width},
				Offset: w.Row*all.Strides[1] + w.Col*all.Strides[2]}
			if err := e.spoolOverview(i, t%across, t/across, part); err != nil {
				return err
			}
		}
		before = all
	}
	return nil
}
