package raster

import (
	"context"
	"errors"

	"leat/ndarray"
)

// Errors that drivers wrap. A message names the file and what is wrong.
var (
	// ErrFormat is returned when the driver does not know the format of a file, or the file is
	// damaged.
	ErrFormat = errors.New("not a readable raster")
	// ErrUnsupported is returned when an intact file needs a codec or feature that the driver
	// lacks.
	ErrUnsupported = errors.New("not supported")
)

// Source is an open raster. Its methods may be called concurrently, except Close, which is called
// once, after the last Read has returned.
type Source interface {
	// Info returns the description of the raster, made when it was opened. It must not be changed.
	Info() *Info
	// Read fills dst with the pixels of window w of the given bands (counted from 1), in their
	// order. dst has type Info().Bands[b-1].Type, shape (len(bands), w.Height, w.Width) and
	// contiguous rows: the last stride is the element size, band and row strides are free. The
	// window must lie inside the raster. After an error the contents of dst are undefined.
	Read(ctx context.Context, bands []int, w Window, dst *ndarray.Array) error
	Close() error
}

// Masker is a Source with one mask for all its bands (a TIFF mask directory, a .msk file,
// NODATA_VALUES), if Info().Mask is MaskDataset.
type Masker interface {
	// ReadMask fills dst, w.Height rows of w.Width bytes, with 0 for invalid pixels and 255 for
	// valid ones.
	ReadMask(ctx context.Context, w Window, dst []byte) error
}

// OverviewSource is a Source with overviews.
type OverviewSource interface {
	// Overviews returns the sizes of the reduced copies, largest first.
	Overviews() []Size
	// Overview opens the i-th overview. It shares the file of its parent and is valid until the
	// parent is closed; closing the overview has no effect.
	Overview(i int) (Source, error)
}

// Size is a width and height in pixels.
type Size struct{ Width, Height int }

// MaskKind says what marks pixels as invalid besides nodata.
type MaskKind uint8

const (
	MaskNone    MaskKind = iota
	MaskAlpha            // where the band with Color Alpha is 0, the other bands are invalid
	MaskDataset          // the Source is a Masker
)

// Info describes a raster. Its slices and maps belong to the Source.
type Info struct {
	Path   string // as given to the driver's Open
	Driver string // "GTiff", "npy"
	Grid   Grid
	Bands  []Band
	Mask   MaskKind

	// TileWidth and TileHeight are the size of the stored tiles. A strip is as wide as the raster.
	TileWidth, TileHeight int
	// MaskFromNodata reports whether the mask comes from the metadata item NODATA_VALUES, which has
	// one value for each band: a pixel is invalid where all bands have theirs.
	MaskFromNodata bool
	// MaskTile is the size of the stored tiles of the mask when Mask is MaskDataset.
	MaskTile    Size
	Interleave  string // "band" or "pixel"
	Compression string // "none", "deflate", "lzw", "zstd", "packbits", ...; or "unknown"
	Predictor   int    // 1 none, 2 horizontal difference, 3 floating point
	ByteOrder   string // "little" or "big"
	BigTIFF     bool
	Overviews   []Size // largest first
	FileBytes   int64

	// Warnings list what the driver ignores or reads differently in the file and its sidecars.
	Warnings []string

	// Metadata holds the file's items of GDAL's default domain, Domains those of the others.
	Metadata map[string]string
	Domains  map[string]map[string]string
}

// Color is the meaning of a band when the raster is displayed: a name of GDAL in lower case. Some,
// such as "cyan", have no constant.
type Color string

const (
	ColorUndefined Color = "undefined"
	ColorGray      Color = "gray"
	ColorPalette   Color = "palette"
	ColorRed       Color = "red"
	ColorGreen     Color = "green"
	ColorBlue      Color = "blue"
	ColorAlpha     Color = "alpha"
)

// RGBA is one entry of a colour table.
type RGBA struct{ R, G, B, A uint8 }

// Band describes one band.
type Band struct {
	Type ndarray.DType // of the pixels that Read returns
	// Stored names the type in the file when Read converts it: "float16" (read as float32), "bool"
	// (read as uint8, 0 or 1), "int16 complex" and the like, "uint1" to "uint4" and "uint12" for
	// packed bits. Otherwise it is empty.
	Stored string
	// Nodata is the value of invalid pixels in the band's type. It is nil when the file gives none,
	// or one that no pixel of the type can have. NodataText is the file's text in both cases.
	Nodata     *ndarray.Scalar
	NodataText string
	// NaN pixels are always invalid, whatever Nodata is.

	Name   string // layer name (in GDAL: description)
	Color  Color
	Colors []RGBA // colour table, nil if none
	// Categories are the names of the values 0, 1, 2 and so on, nil if none.
	Categories []string
	Scale      float64 // value = pixel*Scale + Offset; 1 and 0 when the file gives none
	Offset     float64
	Unit       string
	Metadata   map[string]string // includes STATISTICS_*
}

// Validity returns what decides, besides NaN, which pixels of a band (counted from 1) are valid. As
// in GDAL only one thing does: the dataset's mask, else the band's nodata, else alpha, which does
// not mask itself.
func (i *Info) Validity(band int) (nodata *ndarray.Scalar, mask MaskKind) {
	nodata = i.Bands[band-1].Nodata
	switch {
	case i.Mask == MaskDataset:
		return nil, MaskDataset
	case nodata == nil && i.Mask == MaskAlpha && band != i.AlphaBand():
		return nil, MaskAlpha
	}
	return nodata, MaskNone
}

// AlphaBand returns the number of the alpha band, counted from 1, or 0 when there is none.
func (i *Info) AlphaBand() int {
	for n, b := range i.Bands {
		if b.Color == ColorAlpha {
			return n + 1
		}
	}
	return 0
}

// Decodable is a Source that knows before a read whether it can decode its pixels.
type Decodable interface {
	// CheckReadable returns nil if the pixels can be read. Its error wraps ErrUnsupported or
	// ErrFormat and names the file, the codec and the remedy.
	CheckReadable() error
}
