package raster

import (
	"context"
	"errors"

	"leat/ndarray"
)

// Errors that drivers wrap. A message names the file, what is wrong and what to do.
var (
	// ErrFormat: the file is not one that the driver knows, or it is damaged.
	ErrFormat = errors.New("raster: not a readable raster")
	// ErrUnsupported: the file is sound but needs a codec or feature that the driver lacks.
	ErrUnsupported = errors.New("raster: not supported")
)

// Source is an open raster. Methods may be called from many goroutines at once, but for Close, which
// is called once, after the last Read has returned.
type Source interface {
	// Info describes the raster. It is computed at opening; the caller must not change it.
	Info() *Info
	// Read fills dst with the pixels of window w of the given bands (counted from 1), in their
	// order. dst is an array of Info().Bands[b-1].Type with shape (len(bands), w.Height, w.Width)
	// whose rows are contiguous (the last stride is the element size; band and row strides
	// are free). The window must lie inside the raster. After an error dst holds no particular values.
	Read(ctx context.Context, bands []int, w Window, dst *ndarray.Array) error
	Close() error
}

// Masker is a Source with a mask of its own (a TIFF mask directory, a .msk file): Info().Mask is MaskDataset.
type Masker interface {
	// ReadMask fills dst, w.Height rows of w.Width bytes, with 0 where the pixel is
	// masked out and 255 where it counts.
	ReadMask(ctx context.Context, w Window, dst []byte) error
}

// Tiled is a Source whose pixels lie in tiles or strips that are decoded whole. A [TileCache]
// given to it keeps decoded tiles that a later window needs again.
type Tiled interface {
	// SetCache makes Read and ReadMask keep and look for decoded tiles in c. uses says in how many reads of a
	// whole job a window of the raster, which a tile covers, will take part; tiles used once are not
	// kept. It is called before the first Read.
	SetCache(c *TileCache, uses func(w Window) int)
}

// Leveled is a Source with overviews.
type Leveled interface {
	// Overviews returns the sizes of the reduced copies, largest first.
	Overviews() []Size
	// Overview opens the i-th of them. It shares the file of its parent and is valid until that is
	// closed; closing it does nothing.
	Overview(i int) (Source, error)
}

// Size is a width and height in pixels.
type Size struct{ Width, Height int }

// MaskKind says what tells valid pixels from invalid ones, besides nodata.
type MaskKind uint8

const (
	MaskNone    MaskKind = iota
	MaskAlpha            // a band of Info().Bands has Color Alpha; 0 there is invalid
	MaskDataset          // the Source is a Masker
)

func (k MaskKind) String() string { return [...]string{"none", "alpha", "mask"}[k] }

// Info describes a raster. Slices and maps belong to the Source.
type Info struct {
	Path   string // as given to the driver's Open
	Driver string // "GTiff", "npy"
	Grid   Grid
	Bands  []Band
	Mask   MaskKind

	// TileWidth and TileHeight are those of the stored blocks: a strip is as wide as the raster.
	TileWidth, TileHeight int
	// MaskTile is the size of the stored blocks of the mask where Mask is MaskDataset.
	MaskTile    Size
	Interleave  string // "band" or "pixel"
	Compression string // "none", "deflate", "lzw", "zstd", "packbits", ...; "unknown" where a driver does not tell
	Predictor   int    // 1 none, 2 horizontal difference, 3 floating point
	ByteOrder   string // "little" or "big"
	BigTIFF     bool
	Overviews   []Size // largest first
	FileBytes   int64

	// Metadata holds the file's own items (GDAL's default domain), Domains those of other domains.
	Metadata map[string]string
	Domains  map[string]map[string]string
}

// Color says what a band is when the raster is shown.
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

// RGBA is an entry of a colour table.
type RGBA struct{ R, G, B, A uint8 }

// Band describes one band.
type Band struct {
	Type ndarray.DType // of the pixels that Read gives
	// Stored names the type in the file where Read widens it: "float16" (read as float32), "int16
	// complex" and the like, "uint1" to "uint4" and "uint12" for packed bits. Empty otherwise.
	Stored string
	// Nodata is the value of invalid pixels in the band's own type; nil when there is none or when no
	// pixel of the type can have it. NodataText is what the file says, also in that last case.
	Nodata     *ndarray.Scalar
	NodataText string
	// NaN is no nodata value by itself, but pixels that are NaN are never valid.

	Name     string // layer name (GDAL: description)
	Color    Color
	Colors   []RGBA  // colour table, nil if none
	Scale    float64 // value = pixel*Scale + Offset; 1 and 0 when the file says nothing
	Offset   float64
	Unit     string
	Metadata map[string]string // STATISTICS_* among them
}

// AlphaBand returns the number of the alpha band, counted from 1, or 0.
func (i *Info) AlphaBand() int {
	for n, b := range i.Bands {
		if b.Color == ColorAlpha {
			return n + 1
		}
	}
	return 0
}

// Readable is a Source that knows before reading whether its pixels can be read: a TIFF with a codec
// that the driver lacks can be described, not read. The error wraps ErrUnsupported or ErrFormat and
// names file, codec and remedy.
type Readable interface {
	Readable() error
}
