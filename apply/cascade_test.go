package apply

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"leat/internal/geotiff"
	"leat/internal/overview"
	"leat/ndarray"
)

// reduceByHand computes an overview level from the level before, one cell at a time, without
// package overview. (For nearest, the level before gives the same as full resolution.)
func reduceByHand[T int16 | float32](m overview.Method, px []T, w, h, f int, nodata T) (out []T, ow, oh int) {
	ow, oh = (w+f-1)/f, (h+f-1)/f
	for y := range oh {
		for x := range ow {
			out = append(out, cellByHand(m, px, w, h, x*f, y*f, f, nodata))
		}
	}
	return out, ow, oh
}

func cellByHand[T int16 | float32](m overview.Method, px []T, w, h, x0, y0, f int, nodata T) T {
	switch m {
	case overview.Nearest:
		return px[y0*w+x0]
	case overview.Center:
		return px[min(y0+f/2, h-1)*w+min(x0+f/2, w-1)]
	}
	sum, whole, n := 0.0, int64(0), int64(0)
	times := map[T]int{}
	for y := y0; y < min(y0+f, h); y++ {
		for x := x0; x < min(x0+f, w); x++ {
			if v := px[y*w+x]; v == v && v != nodata {
				sum += float64(v)
				whole += int64(v)
				n++
				times[v]++
			}
		}
	}
	if n == 0 {
		return nodata
	}
	if m == overview.Average {
		if ndarray.TypeOf[T]() == ndarray.Float32 {
			v := float32(sum / float64(n))
			if T(v) == nodata {
				v = math.Nextafter32(v, math.MaxFloat32)
			}
			return T(v)
		}
		q := (2*whole + n) / (2 * n) // half up: the floor of mean + 1/2
		if (2*whole+n)%(2*n) < 0 {
			q--
		}
		if T(q) == nodata {
			q++
		}
		return T(q)
	}
	best, most := T(0), 0
	for v, k := range times {
		if k > most || k == most && v < best {
			best, most = v, k
		}
	}
	return best
}

func TestOverviewsMatchModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		if rapid.Bool().Draw(t, "float") {
			overviewCase[float32](t, dir)
		} else {
			overviewCase[int16](t, dir)
		}
	})
}

func overviewCase[T int16 | float32](t *rapid.T, dir string) {
	w, h := rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 200).Draw(t, "height")
	bands := rapid.IntRange(1, 2).Draw(t, "bands")
	m := overview.Method(rapid.IntRange(0, 3).Draw(t, "method"))
	window := 16 * rapid.IntRange(1, 20).Draw(t, "window / 16")
	var factors []int
	for _, f := range [][]int{{2}, {4}, {2, 8}, {2, 4, 16}, {4, 8, 32, 64}}[rapid.IntRange(0, 4).Draw(t, "levels")] {
		if f < max(w, h) {
			factors = append(factors, f)
		}
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	px := make([]T, bands*w*h)
	for i := range px {
		px[i] = T(r.IntN(12) - 6)
		if ndarray.TypeOf[T]() == ndarray.Float32 && r.IntN(9) == 0 {
			px[i] = T(nan())
		}
	}
	o := Output{Path: filepath.Join(dir, "o.tif"), TileSize: 16 * rapid.IntRange(1, 3).Draw(t, "tile / 16"),
		Nodata: "-3", Overviews: factors, NoOverviews: factors == nil,
		OverviewMethod: m.String(), PixelInterleave: rapid.Bool().Draw(t, "pixel interleave"), NoStatistics: true}
	job := sliceJob(mapGrid(w, h, 0, 0), px, o)
	job.Controls.WindowWidth, job.Controls.WindowHeight = window, window
	if _, err := Run(context.Background(), job); err != nil {
		t.Fatal(err)
	}
	f, err := geotiff.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Overviews()) != len(factors) {
		t.Fatalf("overviews %v for factors %v", f.Overviews(), factors)
	}
	for b := range bands {
		level, lw, lh, before := px[b*w*h:(b+1)*w*h], w, h, 1
		for i, factor := range factors {
			if m == overview.Center { // of full resolution
				level, lw, lh, before = px[b*w*h:(b+1)*w*h], w, h, 1
			}
			level, lw, lh = reduceByHand(m, level, lw, lh, factor/before, -3)
			before = factor
			s, err := f.Overview(i)
			if err != nil {
				t.Fatal(err)
			}
			got := ndarray.New(ndarray.TypeOf[T](), 1, lh, lw)
			if err := s.Read(context.Background(), []int{b + 1}, s.Info().Grid.Window(), got); err != nil {
				t.Fatal(err)
			}
			for k, v := range ndarray.Slice[T](got) {
				if v != level[k] && (v == v || level[k] == level[k]) {
					t.Fatalf("%v, band %d, factor %d, column %d, row %d: %v, not %v", m, b+1, factor, k%lw, k/lw, v,
						level[k])
				}
			}
		}
	}
}
