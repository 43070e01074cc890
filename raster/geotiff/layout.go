package geotiff

import (
	"errors"
	"fmt"

	"leat/ndarray"
	"leat/raster"
)

// FileSpec is all that a written file holds besides its tiles.
type FileSpec struct {
	Path          string // for messages
	Width, Height int
	Bands         int
	Type          ndarray.DType // of all bands
	// TileWidth and TileHeight hold for all levels and are multiples of 16.
	TileWidth, TileHeight int
	// PixelInterleave puts the samples of a pixel side by side in one tile; otherwise each band has tiles
	// of its own.
	PixelInterleave bool
	Coding          Coding

	// Grid gives transform and coordinate reference system; its own size is not looked at.
	Grid raster.Grid
	// Nodata is of Type, or nil.
	Nodata *ndarray.Scalar
	// BandInfo holds for each band Name, Color, Colors, Scale, Offset, Unit and Metadata; the rest of it
	// is not looked at. It may be nil. A colour table is written for files of one band of uint8 or uint16.
	BandInfo []raster.Band
	// Metadata and Domains become GDAL's items of the file.
	Metadata map[string]string
	Domains  map[string]map[string]string

	Levels  []raster.Size // of the overviews, largest first
	HasMask bool          // there is a mask, at each level, of tiles from a MaskEncoder
	BigTIFF bool          // even if the file is small enough without
}

// Check reports all that makes a spec impossible to write, or nil.
func (s *FileSpec) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{s.Path}, args...)...))
	}
	if s.Width <= 0 || s.Height <= 0 {
		bad("a raster of %dx%d pixels can't be written", s.Width, s.Height)
	}
	if s.Width > maxSide || s.Height > maxSide {
		bad("a raster of %dx%d pixels is larger than a GeoTIFF can be (%d a side)", s.Width, s.Height, maxSide)
	}
	if s.Bands <= 0 || s.Bands > maxBands {
		bad("%d bands can't be written (1 to %d can)", s.Bands, maxBands)
	} else if err := s.Shape().check(); err != nil {
		bad("%w", err)
	} else if n := int64(s.tilesOf(0)); n > maxTiles {
		bad("%d tiles are more than a file can hold (%d): take larger tiles", n, maxTiles)
	}
	if s.Type.Valid() {
		if err := s.Coding.Check(s.Type); err != nil {
			bad("%w", err)
		}
	}
	if s.BandInfo != nil && len(s.BandInfo) != s.Bands {
		bad("descriptions of %d bands given for a file of %d", len(s.BandInfo), s.Bands)
	}
	if s.Nodata != nil && s.Nodata.Type != nodataType(s.Type) {
		bad("the nodata value %v is of type %v, the pixels of %v", s.Nodata, s.Nodata.Type, s.Type)
	}
	last := raster.Size{Width: s.Width, Height: s.Height}
	for i, l := range s.Levels {
		if l.Width <= 0 || l.Height <= 0 || l.Width > last.Width || l.Height > last.Height || l == last {
			bad("overview %d of %dx%d pixels does not follow one of %dx%d", i+1, l.Width, l.Height, last.Width, last.Height)
		}
		last = l
	}
	if s.Bands == 1 && len(s.BandInfo) == 1 && s.BandInfo[0].Colors != nil {
		if s.Type != ndarray.Uint8 && s.Type != ndarray.Uint16 {
			bad("a colour table needs pixels of uint8 or uint16, not %v", s.Type)
		} else if n := len(s.BandInfo[0].Colors); n > 1<<(8*s.Type.Size()) {
			bad("a colour table of %d entries for pixels of %v", n, s.Type)
		}
	}
	if _, err := geoKeys(s.Grid); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}

const (
	maxSide  = 1<<31 - 1
	maxTiles = 1 << 28 // of one level; a table of 4 GiB
)

// nodataType is the type in which pixels of t say that they are invalid.
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

// TilesAcross returns the columns and rows of a level's tile grid.
func (s *FileSpec) TilesAcross(level int) (columns, rows int) {
	z := s.Size(level)
	return (z.Width + s.TileWidth - 1) / s.TileWidth, (z.Height + s.TileHeight - 1) / s.TileHeight
}

// Planes returns the number of tile grids that a level has: the bands, or 1 when they are interleaved by
// pixel. Masks have one.
func (s *FileSpec) Planes() int {
	if s.PixelInterleave {
		return 1
	}
	return s.Bands
}

// TileIndex returns the index by which Write asks for the tile at (column, row) of a plane.
func (s *FileSpec) TileIndex(level, plane, column, row int) int {
	columns, rows := s.TilesAcross(level)
	return (plane*rows+row)*columns + column
}

// tilesOf counts the tiles of a level, its mask left out.
func (s *FileSpec) tilesOf(level int) int {
	columns, rows := s.TilesAcross(level)
	return columns * rows * s.Planes()
}

// maskTilesOf counts the tiles of a level's mask.
func (s *FileSpec) maskTilesOf(level int) int {
	columns, rows := s.TilesAcross(level)
	return columns * rows
}
