package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// memSource is a raster in memory: one array a band, mask and overviews if any.
type memSource struct {
	info  raster.Info
	bands []*ndarray.Array // rows, columns
	mask  []byte
	small []*memSource
	reads *int // pixels read, summed up
}

func (m *memSource) Info() *raster.Info { return &m.info }
func (m *memSource) Close() error       { return nil }

func (m *memSource) Read(_ context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if !m.info.Grid.Window().Contains(w) || w.Empty() {
		return fmt.Errorf("window %v outside", w)
	}
	for i, b := range bands {
		src, to := m.bands[b-1], dst.At(i)
		size := src.Type.Size()
		for y := range w.Height {
			from := src.Data[src.Offset+(w.Row+y)*src.Strides[0]+w.Col*size:][:w.Width*size]
			copy(to.Data[to.Offset+y*to.Strides[0]:][:w.Width*size], from)
		}
	}
	if m.reads != nil {
		*m.reads += w.Width * w.Height * len(bands)
	}
	return nil
}

func (m *memSource) Overviews() []raster.Size { return m.info.Overviews }

func (m *memSource) Overview(i int) (raster.Source, error) { return m.small[i], nil }

// maskedSource has a mask of its own.
type maskedSource struct{ *memSource }

func (m maskedSource) ReadMask(_ context.Context, w raster.Window, dst []byte) error {
	for y := range w.Height {
		copy(dst[y*w.Width:(y+1)*w.Width], m.mask[(w.Row+y)*m.info.Grid.Width+w.Col:])
	}
	return nil
}

// memRaster makes a raster whose band i holds value(i, row, col).
func memRaster[T ndarray.Real](width, height, bands int, value func(band, row, col int) T) *memSource {
	m := &memSource{info: raster.Info{Path: "mem", Driver: "mem", TileWidth: width, TileHeight: 1,
		Grid: raster.Grid{Width: width, Height: height, Transform: raster.Identity}}}
	for b := range bands {
		v := make([]T, width*height)
		for i := range v {
			v[i] = value(b, i/width, i%width)
		}
		m.bands = append(m.bands, ndarray.FromSlice(v, height, width))
		m.info.Bands = append(m.info.Bands, raster.Band{Type: ndarray.TypeOf[T](), Scale: 1, Color: raster.ColorUndefined})
	}
	return m
}

// sharedData returns the path of a real raster, or skips the test.
func sharedData(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	path := filepath.Join(dir, "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no test data: ../shared/data/%s is not there", name)
	}
	return path
}
