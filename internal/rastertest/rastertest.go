// Package rastertest has the conformance suite of raster.Source, which the tests of every driver
// run over files with known pixels.
package rastertest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"leat/internal/tilecache"
	"leat/ndarray"
	"leat/raster"
)

// Run checks that the source returned by open holds the pixels of want, an array of (bands, rows,
// columns) of the type that Read returns, and that it fulfils the contracts of raster.Source and of
// the optional interfaces it has. Run calls open several times and closes what it returns.
func Run(t *testing.T, open func(t testing.TB) raster.Source, want *ndarray.Array) {
	t.Helper()
	with := func(name string, f func(t *testing.T, s raster.Source)) {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			f(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	with("Info", func(t *testing.T, s raster.Source) { checkInfo(t, s, want) })
	with("windows and bands in any order", func(t *testing.T, s raster.Source) {
		r := rand.New(rand.NewPCG(11, 12))
		for range 40 {
			checkWindow(t, r, s, want)
		}
	})
	with("concurrent reads", func(t *testing.T, s raster.Source) { checkConcurrent(t, s, want) })
	with("invalid reads", func(t *testing.T, s raster.Source) { checkRefusals(t, s, want) })
	with("cancelled read", func(t *testing.T, s raster.Source) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g := s.Info().Grid
		dst := ndarray.New(want.Type, 1, g.Height, g.Width)
		if err := s.Read(ctx, []int{1}, g.Window(), dst); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	})
	with("tile cache", func(t *testing.T, s raster.Source) { checkCache(t, s, want) })
	with("overviews", checkOverviews)
	with("mask", checkMask)
}

func checkInfo(t *testing.T, s raster.Source, want *ndarray.Array) {
	i := s.Info()
	if len(i.Bands) != want.Shape[0] || i.Grid.Height != want.Shape[1] || i.Grid.Width != want.Shape[2] {
		t.Fatalf("%d bands of %dx%d, the pixels are %v", len(i.Bands), i.Grid.Width, i.Grid.Height, want.Shape)
	}
	for n, b := range i.Bands {
		if b.Type != want.Type {
			t.Errorf("band %d is of %v, the pixels are of %v", n+1, b.Type, want.Type)
		}
		if b.Nodata != nil && b.NodataText == "" {
			t.Errorf("band %d has nodata %v without text", n+1, b.Nodata)
		}
		if b.Scale == 0 {
			t.Errorf("band %d has scale 0", n+1)
		}
	}
	if i.TileWidth < 1 || i.TileHeight < 1 || i.Driver == "" || i.FileBytes <= 0 || i.Interleave != "band" &&
		i.Interleave != "pixel" || i.Predictor == 0 || i.ByteOrder != "little" && i.ByteOrder != "big" {
		t.Errorf("incomplete: %+v", i)
	}
	if !i.Grid.HasTransform && i.Grid.Transform != raster.Identity {
		t.Errorf("no transform, yet %v", i.Grid.Transform)
	}
	if r, ok := s.(raster.Decodable); ok && r.CheckReadable() != nil {
		t.Errorf("CheckReadable: %v", r.CheckReadable())
	}
	if _, ok := s.(raster.Masker); i.Mask == raster.MaskDataset && !ok {
		t.Error("a mask, but no Masker")
	}
	if (i.Mask == raster.MaskAlpha) && i.AlphaBand() == 0 {
		t.Error("an alpha mask, but no alpha band")
	}
}

// window returns a random window of a grid, one time in four the whole grid.
func window(r *rand.Rand, g raster.Grid) raster.Window {
	if r.IntN(4) == 0 {
		return g.Window()
	}
	w := raster.Window{Width: 1 + r.IntN(g.Width), Height: 1 + r.IntN(g.Height)}
	w.Col, w.Row = r.IntN(g.Width-w.Width+1), r.IntN(g.Height-w.Height+1)
	return w
}

const guard = 0xA5

// checkWindow reads a random window of random bands into an array with gaps and compares it. The
// bytes in the gaps must not change.
func checkWindow(t *testing.T, r *rand.Rand, s raster.Source, want *ndarray.Array) {
	t.Helper()
	g := s.Info().Grid
	w := window(r, g)
	bands := r.Perm(want.Shape[0])[:1+r.IntN(want.Shape[0])]
	for i := range bands {
		bands[i]++
	}
	if r.IntN(3) == 0 {
		bands = append(bands, bands[r.IntN(len(bands))])
	}
	size := want.Type.Size()
	before, after := r.IntN(3), r.IntN(3)
	big := ndarray.New(want.Type, len(bands), w.Height+after, before+w.Width+after)
	for i := range big.Data {
		big.Data[i] = guard
	}
	dst := &ndarray.Array{Type: want.Type, Shape: []int{len(bands), w.Height, w.Width}, Strides: big.Strides,
		Offset: before * size, Data: big.Data}
	if err := s.Read(t.Context(), bands, w, dst); err != nil {
		t.Fatalf("bands %v of window %v: %v", bands, w, err)
	}
	expect := bytes.Repeat([]byte{guard}, len(big.Data))
	for i, b := range bands {
		for y := range w.Height {
			from := want.Offset + (b-1)*want.Strides[0] + (w.Row+y)*want.Strides[1] + w.Col*size
			copy(expect[dst.Offset+i*dst.Strides[0]+y*dst.Strides[1]:], want.Data[from:from+w.Width*size])
		}
	}
	if !bytes.Equal(big.Data, expect) {
		at := 0
		for big.Data[at] == expect[at] {
			at++
		}
		t.Fatalf("bands %v of window %v: byte %d of the array is %#x, not %#x", bands, w, at, big.Data[at], expect[at])
	}
}

func checkConcurrent(t *testing.T, s raster.Source, want *ndarray.Array) {
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 10 {
				w := window(r, s.Info().Grid)
				band := 1 + r.IntN(want.Shape[0])
				dst := ndarray.New(want.Type, 1, w.Height, w.Width)
				if err := s.Read(t.Context(), []int{band}, w, dst); err != nil {
					t.Error(err)
					return
				}
				for y := range w.Height {
					size := w.Width * want.Type.Size()
					from := want.Offset + (band-1)*want.Strides[0] + (w.Row+y)*want.Strides[1] + w.Col*want.Type.Size()
					if !bytes.Equal(dst.Data[y*size:(y+1)*size], want.Data[from:from+size]) {
						t.Errorf("band %d, window %v: row %d differs", band, w, y)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func checkRefusals(t *testing.T, s raster.Source, want *ndarray.Array) {
	g := s.Info().Grid
	other := ndarray.Uint8
	if want.Type == other {
		other = ndarray.Uint16
	}
	gappy := ndarray.New(want.Type, 1, 1, 4)
	gappy.Shape, gappy.Strides = []int{1, 1, 2}, []int{0, 0, 2 * want.Type.Size()}
	for _, c := range []struct {
		name  string
		bands []int
		w     raster.Window
		dst   *ndarray.Array
	}{
		{"no band 0", []int{0}, raster.Window{Width: 1, Height: 1}, ndarray.New(want.Type, 1, 1, 1)},
		{"no band after the last", []int{want.Shape[0] + 1}, raster.Window{Width: 1, Height: 1},
			ndarray.New(want.Type, 1, 1, 1)},
		{"window left of the raster", []int{1}, raster.Window{Col: -1, Width: 1, Height: 1},
			ndarray.New(want.Type, 1, 1, 1)},
		{"window below the raster", []int{1}, raster.Window{Row: g.Height, Width: 1, Height: 1},
			ndarray.New(want.Type, 1, 1, 1)},
		{"window wider than the raster", []int{1}, raster.Window{Width: g.Width + 1, Height: 1},
			ndarray.New(want.Type, 1, 1, g.Width+1)},
		{"array of another type", []int{1}, raster.Window{Width: 1, Height: 1}, ndarray.New(other, 1, 1, 1)},
		{"array of another shape", []int{1}, raster.Window{Width: 1, Height: 1}, ndarray.New(want.Type, 1, 1, 2)},
		{"array of two dimensions", []int{1}, raster.Window{Width: 1, Height: 1}, ndarray.New(want.Type, 1, 1)},
		{"more bands than the array has", []int{1, 1}, raster.Window{Width: 1, Height: 1},
			ndarray.New(want.Type, 1, 1, 1)},
	} {
		if err := s.Read(t.Context(), c.bands, c.w, c.dst); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if g.Width > 1 {
		if err := s.Read(t.Context(), []int{1}, raster.Window{Width: 2, Height: 1}, gappy); err == nil {
			t.Error("rows with gaps: no error")
		}
	}
	if err := s.Read(t.Context(), []int{1}, raster.Window{}, ndarray.New(want.Type, 1, 0, 0)); err != nil {
		t.Errorf("an empty window: %v", err)
	}
}

// checkCache reads overlapping windows with a large cache, a cache of about one tile, and none.
func checkCache(t *testing.T, s raster.Source, want *ndarray.Array) {
	tiled, ok := s.(tilecache.Source)
	if !ok {
		t.Skip("skipped: no tilecache.Source")
	}
	for _, limit := range []int64{1 << 30, 1 << 12, 0} {
		cache := tilecache.New(limit)
		tiled.SetCache(cache, func(raster.Window) int { return 3 })
		r := rand.New(rand.NewPCG(5, uint64(limit)))
		for range 15 {
			checkWindow(t, r, s, want)
		}
		checkConcurrent(t, s, want)
		if cache.Peak() > limit {
			t.Errorf("%d bytes kept, the limit is %d", cache.Peak(), limit)
		}
	}
}

func checkOverviews(t *testing.T, s raster.Source) {
	l, ok := s.(raster.OverviewSource)
	if !ok {
		t.Skip("skipped: no raster.OverviewSource")
	}
	sizes := l.Overviews()
	if len(sizes) != len(s.Info().Overviews) {
		t.Errorf("Overviews gives %v, Info %v", sizes, s.Info().Overviews)
	}
	for i, z := range sizes {
		if i > 0 && z.Width*z.Height > sizes[i-1].Width*sizes[i-1].Height {
			t.Errorf("overview %d is larger than the one before it: %v", i, sizes)
		}
		o, err := l.Overview(i)
		if err != nil {
			t.Fatal(err)
		}
		g := o.Info().Grid
		if g.Width != z.Width || g.Height != z.Height || len(o.Info().Bands) != len(s.Info().Bands) {
			t.Errorf("overview %d is %dx%d with %d bands, Overviews lists %v", i, g.Width, g.Height, len(o.Info().Bands),
				z)
		}
		dst := ndarray.New(o.Info().Bands[0].Type, 1, g.Height, g.Width)
		if err := o.Read(t.Context(), []int{1}, g.Window(), dst); err != nil {
			t.Error(err)
		}
		checkMask(t, o)
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if err := o.Read(t.Context(), []int{1}, g.Window(), dst); err != nil {
			t.Errorf("read after Close of an overview: %v", err)
		}
	}
	for _, i := range []int{-1, len(sizes)} {
		if _, err := l.Overview(i); err == nil {
			t.Errorf("overview %d of %d: no error", i, len(sizes))
		}
	}
}

func checkMask(t *testing.T, s raster.Source) {
	g := s.Info().Grid
	m, ok := s.(raster.Masker)
	if !ok {
		return
	}
	mask := make([]byte, g.Width*g.Height)
	err := m.ReadMask(t.Context(), g.Window(), mask)
	if s.Info().Mask != raster.MaskDataset {
		if err == nil {
			t.Error("ReadMask without mask: no error")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		w := window(r, g)
		part := make([]byte, w.Width*w.Height)
		if err := m.ReadMask(t.Context(), w, part); err != nil {
			t.Fatal(err)
		}
		for i, v := range part {
			if v != 0 && v != 255 {
				t.Fatalf("mask value %d", v)
			}
			if v != mask[(w.Row+i/w.Width)*g.Width+w.Col+i%w.Width] {
				t.Fatalf("window %v of the mask differs from the whole of it", w)
			}
		}
	}
	if err := m.ReadMask(t.Context(), raster.Window{Col: g.Width, Width: 1, Height: 1}, make([]byte, 1)); err == nil {
		t.Error("a mask outside the raster: no error")
	}
	if err := m.ReadMask(t.Context(), g.Window(), mask[1:]); err == nil {
		t.Error("a mask into too few bytes: no error")
	}
}
