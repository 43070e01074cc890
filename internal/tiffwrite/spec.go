package tiffwrite

import (
	"errors"
	"fmt"

	"leat/ndarray"
	"leat/raster"
)

// FileSpec describes all of a written file but its tiles.
type FileSpec struct {
	Path          string // for messages
	Width, Height int
	Bands         int
	Type          ndarray.DType // of all bands
	// TileWidth and TileHeight are the tile size at all levels, multiples of 16.
	TileWidth, TileHeight int
	// PixelInterleave stores the samples of a pixel together in one tile; otherwise each band has
	// its own tiles.
	PixelInterleave bool
	Coding          Coding

	// Grid gives the transform and the coordinate reference system, or ground control points, and
	// RPCs. Its size and the names of points are ignored.
	Grid raster.Grid
	// Nodata is of type Type, the real type for complex pixels, or nil.
	Nodata *ndarray.Scalar
	// BandInfo gives Name, Color, Colors, Scale, Offset, Unit and Metadata of each band; its other
	// fields are ignored. It may be nil. A colour table is written only for files of one band of
	// uint8 or uint16.
	BandInfo []raster.Band
	// Metadata and Domains are written as GDAL's metadata items of the file.
	Metadata map[string]string
	Domains  map[string]map[string]string

	Levels  []raster.Size // of the overviews, largest first
	BigTIFF bool          // write a BigTIFF even if the file is small
}

// Check returns all reasons why the spec cannot be written, joined, or nil.
func (s *FileSpec) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{s.Path}, args...)...))
	}
	if s.Width <= 0 || s.Height <= 0 {
		bad("cannot write a raster of %dx%d pixels", s.Width, s.Height)
	}
	if s.Width > maxSide || s.Height > maxSide {
		bad("a raster of %dx%d pixels is larger than a GeoTIFF can be (%d a side)", s.Width, s.Height, maxSide)
	}
	if s.Bands <= 0 || s.Bands > maxBands {
		bad("cannot write %d bands (expected 1 to %d)", s.Bands, maxBands)
	} else if err := s.Shape().check(); err != nil {
		bad("%w", err)
	} else if n := int64(s.tilesOf(0)); n > maxTiles {
		bad("%d tiles exceed the limit of %d: use larger tiles", n, maxTiles)
	}
	if s.Type.Valid() {
		if err := s.Coding.Check(s.Type); err != nil {
			bad("%w", err)
		}
	}
	if s.BandInfo != nil && len(s.BandInfo) != s.Bands {
		bad("descriptions of %d bands for a file of %d bands", len(s.BandInfo), s.Bands)
	}
	if s.Nodata != nil && s.Nodata.Type != nodataType(s.Type) {
		bad("nodata %v is of type %v, pixels are %v", s.Nodata, s.Nodata.Type, s.Type)
	}
	last := raster.Size{Width: s.Width, Height: s.Height}
	for i, l := range s.Levels {
		if l.Width <= 0 || l.Height <= 0 || l.Width > last.Width || l.Height > last.Height || l == last {
			bad("overview %d of %dx%d pixels is not smaller than %dx%d", i+1, l.Width, l.Height, last.Width,
				last.Height)
		}
		last = l
	}
	if s.Bands == 1 && len(s.BandInfo) == 1 && s.BandInfo[0].Colors != nil {
		if s.Type != ndarray.Uint8 && s.Type != ndarray.Uint16 {
			bad("a colour table needs pixels of uint8 or uint16, not %v", s.Type)
		} else if n := len(s.BandInfo[0].Colors); n > 1<<(8*s.Type.Size()) {
			bad("%d entries in the colour table are too many for pixels of %v", n, s.Type)
		}
	}
	if err := CheckGeoreference(s.Grid); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}

const (
	maxSide  = 1<<31 - 1
	maxTiles = 1 << 28 // of one level; a table of 4 GiB
)

// nodataType returns the type of the nodata value of pixels of type t.
func nodataType(t ndarray.DType) ndarray.DType {
	switch t {
	case ndarray.Complex64:
		return ndarray.Float32
	case ndarray.Complex128:
		return ndarray.Float64
	}
	return t
}

// Shape returns the shape of the file's tiles, for [NewEncoder].
func (s *FileSpec) Shape() TileShape {
	n := 1
	if s.PixelInterleave {
		n = s.Bands
	}
	return TileShape{s.Type, s.TileWidth, s.TileHeight, n}
}

// Size returns the size of a level in pixels: 0 is full resolution, 1 the first overview.
func (s *FileSpec) Size(level int) raster.Size {
	if level == 0 {
		return raster.Size{Width: s.Width, Height: s.Height}
	}
	return s.Levels[level-1]
}

// TileGrid returns the columns and rows of a level's tile grid.
func (s *FileSpec) TileGrid(level int) (columns, rows int) {
	z := s.Size(level)
	return (z.Width + s.TileWidth - 1) / s.TileWidth, (z.Height + s.TileHeight - 1) / s.TileHeight
}

// Planes returns the number of tile grids of a level: the number of bands, or 1 if they are
// pixel-interleaved.
func (s *FileSpec) Planes() int {
	if s.PixelInterleave {
		return 1
	}
	return s.Bands
}

// TileIndex returns the index with which Write requests the tile at (column, row) of a plane.
func (s *FileSpec) TileIndex(level, plane, column, row int) int {
	columns, rows := s.TileGrid(level)
	return (plane*rows+row)*columns + column
}

// tilesOf returns the number of tiles of a level.
func (s *FileSpec) tilesOf(level int) int {
	columns, rows := s.TileGrid(level)
	return columns * rows * s.Planes()
}
