package spool

import (
	"iter"

	"leat/block"
	"leat/internal/overview"
	"leat/internal/stats"
	"leat/internal/tiffwrite"
	"leat/raster"
)

// MaxFusedFactor is the largest overview factor whose pixels are made from one block. Coarser
// levels are tiny and are made at the end from the level before.
const MaxFusedFactor = 512

// Spec describes an output whose blocks become records.
type Spec struct {
	Output string // its name, for messages
	// File describes pixels, tiles and overviews as the finished file has them, also if GDAL writes
	// that file.
	File       tiffwrite.FileSpec
	Blocks     block.Plan
	Candidates []tiffwrite.Coding // to choose from; the last is the type's default
	Factors    []int              // of File.Levels
	Method     overview.Method
	Alpha      int // band, counted from 1, that marks valid pixels of the others; 0 for none
	// Statistics and Histogram select what records contain besides pixels. Complex types have no
	// histogram.
	Statistics, Histogram bool
	// NoPixels is set for an output of emitted values alone: its records have no tiles.
	NoPixels bool
}

// Layout is the layout of an output's records. It is immutable.
type Layout struct {
	Spec
	levels []levelLayout // levels[0] is full resolution
	totals *stats.Totals // checks histograms
}

type levelLayout struct {
	factor int
	size   raster.Size
	// fused is set for overviews made block by block. Their blocks divide the level as the run's
	// blocks divide the grid.
	fused  bool
	blocks block.Plan
	// whole is set for a fused level whose blocks have whole tiles: their records have the encoded
	// tiles. Records have the pixels of the other fused levels.
	whole bool
}

// pixels reports whether records have the level's pixels.
func (v *levelLayout) pixels() bool { return v.fused && !v.whole }

// NewLayout returns the layout of an output's records.
func NewLayout(s Spec) (*Layout, error) {
	if err := s.File.Check(); err != nil {
		return nil, err
	}
	s.Histogram = s.Histogram && s.Statistics && !s.File.Type.IsComplex()
	l := &Layout{Spec: s, levels: []levelLayout{{factor: 1, size: s.File.Size(0)}},
		totals: stats.NewTotals(s.File.Type)}
	for i, f := range s.Factors {
		v := levelLayout{factor: f, size: s.File.Size(i + 1)}
		if f <= MaxFusedFactor {
			v.fused = true
			v.blocks = block.Plan{Width: v.size.Width, Height: v.size.Height,
				WindowWidth:  overview.Reduced(s.Blocks.WindowWidth, f),
				WindowHeight: overview.Reduced(s.Blocks.WindowHeight, f)}
			// Coarser levels are made from the pixels of the last level that is fused.
			last := i+1 < len(s.Factors) && s.Factors[i+1] > MaxFusedFactor
			v.whole = !last && wholeTiles(v.blocks.WindowWidth, s.File.TileWidth, v.size.Width) &&
				wholeTiles(v.blocks.WindowHeight, s.File.TileHeight, v.size.Height)
		}
		l.levels = append(l.levels, v)
	}
	return l, nil
}

// wholeTiles reports whether blocks with sides of n pixels have whole tiles in a level of size
// pixels. A block that only covers a level smaller than a tile has none: the encoded tile may be
// larger than the pixels, for which the memory of records is planned.
func wholeTiles(n, tile, size int) bool { return n%tile == 0 || n >= size && size >= tile }

// tileWindow returns the part of a level that a tile covers.
func (l *Layout) tileWindow(level, col, row int) block.Window {
	f := &l.File
	s := f.Size(level)
	return block.Window{Col: col * f.TileWidth, Row: row * f.TileHeight, Width: f.TileWidth, Height: f.TileHeight}.
		Intersect(block.Window{Width: s.Width, Height: s.Height})
}

// windowOfTile returns the part of full resolution that the tile with this index covers.
func (l *Layout) windowOfTile(index int) block.Window {
	across, down := l.File.TileGrid(0)
	index %= across * down
	return l.tileWindow(0, index%across, index/across)
}

// position is that of a tile among the tiles of a level.
type position struct{ col, row int }

// tilesIn yields the positions of the tiles that touch a window, row by row.
func (l *Layout) tilesIn(w block.Window) iter.Seq[position] {
	return func(yield func(position) bool) {
		for row := w.Row / l.File.TileHeight; row*l.File.TileHeight < w.Row+w.Height; row++ {
			for col := w.Col / l.File.TileWidth; col*l.File.TileWidth < w.Col+w.Width; col++ {
				if !yield(position{col, row}) {
					return
				}
			}
		}
	}
}

// encodedTile is a tile in the record of a block. Level 0 is full resolution.
type encodedTile struct{ level, index int }

// appendTiles appends the tiles in a block's record to a list, in the order in which they are
// encoded.
func (l *Layout) appendTiles(list []encodedTile, b block.Block) []encodedTile {
	if l.NoPixels {
		return list
	}
	for i := range l.levels {
		if v := &l.levels[i]; i > 0 && !v.whole {
			continue
		}
		for plane := range l.File.Planes() {
			for p := range l.tilesIn(l.blockWindow(i, b)) {
				list = append(list, encodedTile{i, l.File.TileIndex(i, plane, p.col, p.row)})
			}
		}
	}
	return list
}

// blockWindow returns the part of a level, full resolution or a fused one, that a block covers.
func (l *Layout) blockWindow(level int, b block.Block) block.Window {
	if level == 0 {
		return b.Window
	}
	return l.levels[level].blocks.At(b.Number).Window
}

// dataBytes returns the size of a block's record before its tiles are encoded.
func (l *Layout) dataBytes(b block.Block) int {
	return len(l.appendTiles(nil, b))*l.File.Shape().Bytes() + int(l.sectionOffset(len(l.levels), b.Number))
}

// sectionOffset returns where a block's pixels of an overview level begin, from those of the first
// level whose pixels are in records.
func (l *Layout) sectionOffset(level, block int) (offset int64) {
	for i := range l.levels[:level] {
		if l.levels[i].pixels() {
			offset += l.sectionBytes(i, block)
		}
	}
	return offset
}

// sectionBytes returns the size of a block's pixels of an overview level.
func (l *Layout) sectionBytes(level, block int) int64 {
	return l.levels[level].blocks.At(block).Window.Pixels() * int64(l.File.Bands*l.File.Type.Size())
}

// overviewBytes returns the size of a block's pixels of all overview levels made block by block.
func (l *Layout) overviewBytes(block int) (bytes int) {
	for i, v := range l.levels {
		if v.fused {
			bytes += int(l.sectionBytes(i, block))
		}
	}
	return bytes
}

// bandsPerTile returns how many bands a tile holds.
func (l *Layout) bandsPerTile() int { return l.File.Bands / l.File.Planes() }

// alphaFirst lists the bands, counted from 0, beginning with the alpha band, which masks the
// others.
func (l *Layout) alphaFirst() (list []int) {
	if l.Alpha > 0 {
		list = append(list, l.Alpha-1)
	}
	for band := range l.File.Bands {
		if band != l.Alpha-1 {
			list = append(list, band)
		}
	}
	return list
}
