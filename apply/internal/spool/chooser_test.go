package spool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/block"
	"leat/internal/tiffwrite"
	"leat/ndarray"
)

// TestSamples compares the pixels of samples with those of the tile, by row and column: half of the
// rows from the top and half from the bottom, and little padding.
func TestSamples(t *testing.T) {
	t.Parallel()
	const tile = 128
	for _, c := range []struct{ inWidth, inHeight, width, height, first, second int }{
		{128, 128, 128, 64, 0, 96}, // a whole tile: rows 0 to 31 and 96 to 127
		{115, 128, 128, 64, 0, 96},
		{97, 91, 112, 64, 0, 59}, // the last row inside the raster is row 90
		{16, 65, 16, 64, 0, 33},
		{17, 64, 32, 64, 0, 32}, // from here on, all rows
		{1, 50, 16, 64, 0, 32},
		{1, 33, 16, 48, 0, 24},
		{128, 1, 128, 16, 0, 8},
	} {
		t.Run(fmt.Sprint(c.inWidth, "x", c.inHeight), func(t *testing.T) {
			w, h := tile+c.inWidth, tile+c.inHeight
			l, err := NewLayout(Spec{Output: "out", Blocks: block.Plan{Width: w, Height: h, WindowWidth: w, WindowHeight: h},
				File: tiffwrite.FileSpec{Path: "a.tif", Width: w, Height: h, Bands: 1, Type: ndarray.Uint16,
					TileWidth: tile, TileHeight: tile},
				Candidates: tiffwrite.Candidates(ndarray.Uint16, tiffwrite.Deflate)})
			if err != nil {
				t.Fatal(err)
			}
			a := ndarray.New(ndarray.Uint16, tile, tile)
			px := ndarray.Slice[uint16](a)
			for i := range px {
				px[i] = uint16(i)
			}
			var mine trial
			last := l.File.TileIndex(0, 0, 1, 1)
			got := ndarray.Cast[uint16](NewChooser(l, nil).sampleOf(last, a.Raw(), &mine))
			if mine.shape.Width != c.width || mine.shape.Height != c.height || len(got) != c.width*c.height {
				t.Fatalf("%d pixels of shape %+v, expected %d x %d", len(got), mine.shape, c.width, c.height)
			}
			for i, v := range got {
				row := c.first + i/c.width
				if i/c.width >= c.height/2 {
					row = c.second + i/c.width - c.height/2
				}
				if want := uint16(row*tile + i%c.width); v != want {
					t.Fatalf("pixel %d of the sample is %d, expected %d", i, v, want)
				}
			}
		})
	}
}

// TestSlowLevels compares trials, which leave out slower levels that can't win, with the sizes by
// each candidate.
func TestSlowLevels(t *testing.T) {
	t.Parallel()
	const side = 256
	r := rand.New(rand.NewPCG(5, 1))
	ramp := func(i int) float64 { return float64(i%side*3 + i/side) }
	for name, c := range map[string]struct {
		pixel   func(i int) float64
		leftOut bool
	}{
		"noise":                 {func(int) float64 { return r.Float64() }, true},
		"ratios":                {func(i int) float64 { return (300 + ramp(i)) / (1000 + 200*r.Float64()) }, true},
		"ramp":                  {ramp, false},
		"few values":            {func(int) float64 { return []float64{0.1, 0.7, 3}[r.IntN(3)] }, false},
		"heights, whole metres": {func(i int) float64 { return math.Round(ramp(i)/20 + 3*r.Float64()) }, false},
	} {
		for _, typ := range []ndarray.DType{ndarray.Float32, ndarray.Float64} {
			l, err := NewLayout(Spec{Output: "out", Blocks: block.Plan{Width: side, Height: side, WindowWidth: side, WindowHeight: side},
				File: tiffwrite.FileSpec{Path: "a.tif", Width: side, Height: side, Bands: 1, Type: typ,
					TileWidth: side, TileHeight: side},
				Candidates: tiffwrite.Candidates(typ, tiffwrite.Deflate)})
			if err != nil {
				t.Fatal(err)
			}
			a := ndarray.New(ndarray.Float64, side, side)
			for i := range ndarray.Slice[float64](a) {
				ndarray.Slice[float64](a)[i] = c.pixel(i)
			}
			tile := a.Raw()
			if typ == ndarray.Float32 {
				b := ndarray.New(typ, side, side)
				for i, v := range ndarray.Slice[float64](a) {
					ndarray.Slice[float32](b)[i] = float32(v)
				}
				tile = b.Raw()
			}
			chooser, mine := NewChooser(l, nil), trial{}
			sample := chooser.sampleOf(0, tile, &mine)
			got, err := chooser.try(sample, &mine, new(tiffwrite.Memory))
			if err != nil {
				t.Fatal(err)
			}
			var want []int
			for _, candidate := range l.Candidates {
				b, err := tiffwrite.NewEncoder(mine.shape, candidate).Encode(nil, sample)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, len(b))
			}
			const slow = 1
			if (mine.encoders[slow] == nil) != c.leftOut {
				t.Errorf("%s of %v: level 6 left out: %v, sizes %v of %d", name, typ, !c.leftOut, want, len(sample))
			}
			if c.leftOut {
				if least := min(want[0], want[2]); want[slow] < least {
					t.Errorf("%s of %v: level 6 was left out, but is the smallest: %v", name, typ, want)
				}
				want[slow] = want[0]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s of %v: sizes %v, expected %v", name, typ, got, want)
			}
		}
	}
}
