package spool

import (
	"fmt"

	"leat/block"
	"leat/internal/overview"
	"leat/ndarray"
)

// levelTile is the position of an overview tile, in tiles.
type levelTile struct {
	level int
	position
}

// markSections records where a block's overview pixels are in the file, and returns the overview
// tiles that they complete. offset is that of the record's data. The caller holds s.mu.
func (s *Spool) markSections(b block.Block, sections []section, offset int64) (complete []levelTile) {
	if len(sections) > 0 {
		s.sections[b.Number] = offset + int64(sections[0].offset)
	}
	for _, c := range sections {
		l := &s.levels[c.level]
		across, _ := s.l.File.TileGrid(c.level)
		for p := range s.l.tilesIn(s.l.levels[c.level].blocks.At(b.Number).Window) {
			t := p.row*across + p.col
			if l.waiting[t]--; l.waiting[t] == 0 {
				complete = append(complete, levelTile{c.level, p})
			}
		}
	}
	return complete
}

// buildOverviewTile assembles an overview tile from the pixels in the file, for all bands, and
// spools it.
func (s *Spool) buildOverviewTile(e *Encoder, t levelTile) error {
	f := &s.l.File
	w := s.l.tileWindow(t.level, t.col, t.row)
	size := f.Type.Size()
	plane := f.TileHeight * f.TileWidth * size
	e.level = aligned(e.level, f.Bands*plane)
	a := &ndarray.Array{Type: f.Type, Data: e.level, Shape: []int{f.Bands, w.Height, w.Width},
		Strides: []int{plane, f.TileWidth * size, size}}
	if err := s.readLevel(e, t.level, w, a); err != nil {
		return err
	}
	if s.l.bandsPerTile() == 1 { // padded here, tiles need not be copied
		for band := range f.Bands {
			s.l.pad(e.level[band*plane:][:plane], w, size, t.level)
		}
		a.Shape = []int{f.Bands, f.TileHeight, f.TileWidth}
	}
	return s.addOverviewTile(e, t, a)
}

// readLevel reads a window of an overview level, with all bands, from the sections in the file.
func (s *Spool) readLevel(e *Encoder, lev int, w block.Window, a *ndarray.Array) error {
	blocks, size := &s.l.levels[lev].blocks, s.l.File.Type.Size()
	firstCol, firstRow := w.Col/blocks.WindowWidth, w.Row/blocks.WindowHeight
	for r := firstRow; r*blocks.WindowHeight < w.Row+w.Height; r++ {
		for c := firstCol; c*blocks.WindowWidth < w.Col+w.Width; c++ {
			n := r*blocks.Cols() + c
			have := blocks.At(n).Window
			part := have.Intersect(w)
			section := s.sections[n] + s.l.sectionOffset(lev, n)
			for band := range s.l.File.Bands {
				// Read whole rows: sections are rarely wider than a tile.
				at := section + int64((band*have.Height+part.Row-have.Row)*have.Width*size)
				length := part.Height * have.Width * size
				dst := a.At(band)
				first := dst.Offset + (part.Row-w.Row)*dst.Strides[0] + (part.Col-w.Col)*size
				whole := part.Width == have.Width && dst.Strides[0] == have.Width*size // rows without gaps
				to := dst.Data[first:]
				if !whole {
					e.read = aligned(e.read, length)
					to = e.read
				}
				if _, err := s.file.ReadAt(to[:length], at); err != nil {
					return fmt.Errorf("%s: reading overview pixels back: %w", s.file.path, err)
				}
				if whole {
					continue
				}
				for y := range part.Height {
					from := (y*have.Width + part.Col - have.Col) * size
					copy(dst.Data[first+y*dst.Strides[0]:][:part.Width*size], e.read[from:])
				}
			}
		}
	}
	return nil
}

// addOverviewTile encodes and spools an overview tile from its pixels of all bands.
func (s *Spool) addOverviewTile(e *Encoder, t levelTile, a *ndarray.Array) error {
	f, r := &s.l.File, &e.rec
	r.Data, r.Meta = r.Data[:0], r.Meta[:0]
	part := block.Window{Width: a.Shape[2], Height: a.Shape[1]}
	var planes []recordTile
	coding, final := s.chooser.coding()
	for plane := range f.Planes() {
		offset := len(r.Data)
		if err := e.encodeOverview(coding, a, plane, part, t.level); err != nil {
			return err
		}
		planes = append(planes, recordTile{index: f.TileIndex(t.level, plane, t.col, t.row), offset: offset,
			length: len(r.Data) - offset})
	}
	for _, p := range planes {
		r.Meta = appendTileEntry(r.Meta, p.index, p.length, final)
	}
	at, err := s.file.append(KindOverview, tileNumber(t.level, planes[0].index), r.Meta, r.Data)
	if err != nil {
		return err
	}
	for _, p := range planes {
		s.levels[t.level].tiles[p.index] = newTile(at+int64(p.offset), p.length, final)
	}
	return nil
}

// tileNumber returns the number of a tile's record.
func tileNumber(level, index int) uint64 { return uint64(level)<<48 | uint64(index) }

// buildCoarseOverviews makes the levels that are too coarse to be made block by block, each from
// the level before. They are at most a few thousand pixels a side.
func (s *Spool) buildCoarseOverviews(e *Encoder) error {
	f := &s.l.File
	var before *ndarray.Array // the whole level before
	for i, v := range s.l.levels {
		if i == 0 || v.fused {
			continue
		}
		if before == nil {
			size := f.Size(i - 1)
			before = ndarray.New(f.Type, f.Bands, size.Height, size.Width)
			if err := s.readLevel(e, i-1, block.Window{Width: size.Width, Height: size.Height}, before); err != nil {
				return err
			}
		}
		from, factor := before, v.factor/s.l.levels[i-1].factor
		all := ndarray.New(f.Type, f.Bands, v.size.Height, v.size.Width)
		e.readAlpha(from, block.Window{Width: from.Shape[2], Height: from.Shape[1]})
		for band := range f.Bands {
			src := overview.Plane{Type: f.Type, Width: from.Shape[2], Height: from.Shape[1], Stride: from.Shape[2],
				Data: from.At(band).Raw(), Mask: e.maskFor(band)}
			if err := overview.Reduce(s.l.Method, all.At(band).Raw(), src, factor, f.Nodata); err != nil {
				return err
			}
		}
		for p := range s.l.tilesIn(block.Window{Width: v.size.Width, Height: v.size.Height}) {
			w := s.l.tileWindow(i, p.col, p.row)
			part := &ndarray.Array{Type: f.Type, Data: all.Data, Strides: all.Strides,
				Shape:  []int{f.Bands, w.Height, w.Width},
				Offset: w.Row*all.Strides[1] + w.Col*all.Strides[2]}
			if err := s.addOverviewTile(e, levelTile{i, p}, part); err != nil {
				return err
			}
		}
		before = all
	}
	return nil
}
