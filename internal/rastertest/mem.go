package rastertest

import (
	"context"
	"fmt"

	"leat/ndarray"
	"leat/raster"
)

// Mem is a raster in memory. Smaller holds its overviews.
type Mem struct {
	Raster     raster.Info
	Arrays     []*ndarray.Array // one per band: rows, columns
	Mask       []byte
	Smaller    []*Mem
	PixelsRead *int // counts the pixels that were read, unless nil
}

func (m *Mem) Info() *raster.Info { return &m.Raster }
func (m *Mem) Close() error       { return nil }

func (m *Mem) Read(_ context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if !m.Raster.Grid.Window().Contains(w) || w.Empty() {
		return fmt.Errorf("window %v outside", w)
	}
	for i, b := range bands {
		src, to := m.Arrays[b-1], dst.At(i)
		size := src.Type.Size()
		for y := range w.Height {
			from := src.Data[src.Offset+(w.Row+y)*src.Strides[0]+w.Col*size:][:w.Width*size]
			copy(to.Data[to.Offset+y*to.Strides[0]:][:w.Width*size], from)
		}
	}
	if m.PixelsRead != nil {
		*m.PixelsRead += w.Width * w.Height * len(bands)
	}
	return nil
}

func (m *Mem) Overviews() []raster.Size { return m.Raster.Overviews }

func (m *Mem) Overview(i int) (raster.Source, error) { return m.Smaller[i], nil }

// MaskedMem is a Mem with a mask: Mask has one byte per pixel, 0 for invalid ones.
type MaskedMem struct{ *Mem }

func (m MaskedMem) ReadMask(_ context.Context, w raster.Window, dst []byte) error {
	for y := range w.Height {
		copy(dst[y*w.Width:(y+1)*w.Width], m.Mask[(w.Row+y)*m.Raster.Grid.Width+w.Col:])
	}
	return nil
}

// NewMem returns a raster whose band i holds value(i, row, col).
func NewMem[T ndarray.Real](width, height, bands int, value func(band, row, col int) T) *Mem {
	m := &Mem{Raster: raster.Info{Path: "mem", Driver: "mem", TileWidth: width, TileHeight: 1,
		Grid: raster.Grid{Width: width, Height: height, Transform: raster.Identity}}}
	for b := range bands {
		v := make([]T, width*height)
		for i := range v {
			v[i] = value(b, i/width, i%width)
		}
		m.Arrays = append(m.Arrays, ndarray.FromSlice(v, height, width))
		m.Raster.Bands = append(m.Raster.Bands,
			raster.Band{Type: ndarray.TypeOf[T](), Scale: 1, Color: raster.ColorUndefined})
	}
	return m
}
