package zonal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/block"
	"leat/internal/proctest"
)

// shares returns the weights of a mask as an array.
func shares(m *Mask, width, height int) []Weight {
	out := make([]Weight, width*height)
	add := func(row, col int, w Weight) {
		if out[row*width+col] != 0 {
			panic("pixel appears twice")
		}
		out[row*width+col] = w
	}
	for _, r := range m.Runs {
		for c := range r.Len {
			add(r.Row, r.Col+c, One)
		}
	}
	for _, p := range m.Partials {
		add(p.Row, p.Col, p.Weight)
	}
	return out
}

// clippedArea returns the area of a ring within a pixel by clipping it to the four sides.
func clippedArea(ring []float64, col, row float64) float64 {
	pts := slices.Clone(ring)
	for side := range 4 {
		axis, at, keepAbove := side%2, []float64{col, row, col + 1, row + 1}[side], side < 2
		inside := func(v float64) bool { return v >= at == keepAbove || v == at }
		var out []float64
		for i := 0; i < len(pts); i += 2 {
			j := (i + len(pts) - 2) % len(pts)
			a, b := pts[j:j+2], pts[i:i+2]
			if inside(a[axis]) != inside(b[axis]) {
				f := (at - a[axis]) / (b[axis] - a[axis])
				x := []float64{a[0] + f*(b[0]-a[0]), a[1] + f*(b[1]-a[1])}
				x[axis] = at
				out = append(out, x...)
			}
			if inside(b[axis]) {
				out = append(out, b...)
			}
		}
		pts = out
	}
	area := 0.0
	for i := 0; i < len(pts); i += 2 {
		j := (i + 2) % len(pts)
		area += (pts[i]-col)*(pts[j+1]-row) - (pts[j]-col)*(pts[i+1]-row)
	}
	return math.Abs(area) / 2
}

func TestCoverageIsTheClippedArea(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var r Rasterizer
	var m Mask
	count := proctest.Rounds(60, 200, 1000)
	for n := range count {
		grid := []float64{0, 1, 2, 8}[n%4]
		x, y := 15+10*rng.Float64(), 15+10*rng.Float64()
		vertices := 3 + rng.IntN(50)
		if grid > 0 { // so that rounded rings do not cross themselves
			vertices = 3 + rng.IntN(4)
		}
		rings := [][]float64{star(rng, x, y, 13+rng.Float64(), vertices, grid)}
		if n%3 == 0 {
			rings = [][]float64{star(rng, x, y, 14, 40, 0), star(rng, x, y, 3, 4, grid)}
		}
		if n%7 == 0 {
			rings = [][]float64{star(rng, x, y, 0.3*rng.Float64(), 7, 0)}
		}
		r.Cover(newPolygon(rings...), block.Window{Width: 40, Height: 40}, ByCoverage, &m)
		for i, got := range shares(&m, 40, 40) {
			want := clippedArea(rings[0], float64(i%40), float64(i/40))
			for _, hole := range rings[1:] {
				want -= clippedArea(hole, float64(i%40), float64(i/40))
			}
			if math.Abs(got.Float()-want) > 2e-12 {
				t.Fatalf("polygon %d %v: pixel %d,%d has the share %v, expected %v", n, rings, i%40, i/40, got.Float(), want)
			}
		}
	}
}

// TestEvenOddCoverage checks shapes that cross and repeat themselves.
func TestEvenOddCoverage(t *testing.T) {
	square := func(x, y, size float64) []float64 {
		return []float64{x, y, x + size, y, x + size, y + size, x, y + size}
	}
	for name, test := range map[string]struct {
		p    *Polygon
		want []float64 // of pixels in the first row
	}{
		"bow-tie":             {newPolygon([]float64{0, 0, 2, 1, 2, 0, 0, 1}), []float64{.5, .5}},
		"bow-tie in a pixel":  {newPolygon([]float64{1, 0, 2, 1, 2, 0, 1, 1}), []float64{0, .5}},
		"same ring twice":     {newPolygon(square(0, 0, 1), square(0, 0, 1)), nil},
		"overlapping parts":   {multi([][]float64{{0, 0, 1.5, 0, 1.5, 1, 0, 1}}, [][]float64{{.5, 0, 1.75, 0, 1.75, 1, .5, 1}}), []float64{1, .75}},
		"overlapping rings":   {newPolygon([]float64{0, 0, 1.5, 0, 1.5, 1, 0, 1}, []float64{.5, 0, 1.75, 0, 1.75, 1, .5, 1}), []float64{.5, .25}},
		"hole touching shell": {newPolygon(square(0, 0, 2), []float64{0, 0, 1, 1, 1, 0}), []float64{.5, 1}},
		"no area":             {newPolygon([]float64{0, 0, 3, 3, 1, 1}), nil},
		"one vertex":          {newPolygon([]float64{.5, .5}), nil},
		"empty":               {newPolygon(nil), nil},
		"no parts":            {&Polygon{}, nil},
		"spike":               {newPolygon([]float64{0, 0, 1, 0, 1, .5, 3, .5, 1, .5, 1, 1, 0, 1}), []float64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var m Mask
			new(Rasterizer).Cover(test.p, block.Window{Width: 4, Height: 1}, ByCoverage, &m)
			for i, got := range shares(&m, 4, 1) {
				want := 0.0
				if i < len(test.want) {
					want = test.want[i]
				}
				if got.Float() != want {
					t.Errorf("pixel %d has the share %v, expected %v", i, got.Float(), want)
				}
			}
		})
	}
}

func TestWindowsDoNotChangeAMask(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var r Rasterizer
	var m Mask
	for n := range 300 {
		p := randomPolygon(rng)
		rule := Rule(n % 3)
		r.Cover(p, block.Window{Col: -10, Row: -10, Width: 60, Height: 60}, rule, &m)
		want := shares(&m, 60, 60)
		w, h := 1+rng.IntN(30), 1+rng.IntN(30)
		plan := block.Plan{Width: 60, Height: 60, WindowWidth: w, WindowHeight: h}
		for i := range plan.Count() {
			b := plan.At(i).Window
			r.Cover(p, block.Window{Col: b.Col - 10, Row: b.Row - 10, Width: b.Width, Height: b.Height}, rule, &m)
			for j, got := range shares(&m, b.Width, b.Height) {
				c, row := b.Col+j%b.Width, b.Row+j/b.Width
				if got != want[row*60+c] {
					t.Fatalf("polygon %d, rule %d, blocks of %d x %d: pixel %d,%d has weight %d, expected %d",
						n, rule, w, h, c-10, row-10, got, want[row*60+c])
				}
			}
		}
	}
}

// TestPartitionCoversEachPixelOnce divides a square by random lines.
func TestPartitionCoversEachPixelOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const size = 24
	for range 20 {
		pieces := [][]float64{{0, 0, size, 0, size, size, 0, size}}
		for range 6 {
			a, b := 2*math.Pi*rng.Float64(), size*rng.Float64()
			nx, ny := math.Cos(a), math.Sin(a)
			d := nx*b + ny*size*rng.Float64()
			var next [][]float64
			for _, p := range pieces {
				for _, sign := range []float64{1, -1} {
					var out []float64
					for i := 0; i < len(p); i += 2 {
						j := (i + len(p) - 2) % len(p)
						s0, s1 := nx*p[j]+ny*p[j+1]-d, nx*p[i]+ny*p[i+1]-d
						if s0*s1 < 0 {
							f := s0 / (s0 - s1)
							out = append(out, p[j]+f*(p[i]-p[j]), p[j+1]+f*(p[i+1]-p[j+1]))
						}
						if s1*sign >= 0 {
							out = append(out, p[i], p[i+1])
						}
					}
					if len(out) >= 6 {
						next = append(next, out)
					}
				}
			}
			pieces = next
		}
		sum := make([]float64, size*size)
		var r Rasterizer
		var m Mask
		for _, p := range pieces {
			r.Cover(newPolygon(p), block.Window{Width: size, Height: size}, ByCoverage, &m)
			for i, w := range shares(&m, size, size) {
				sum[i] += w.Float()
			}
		}
		for i, s := range sum {
			if math.Abs(s-1) > 1e-11 {
				t.Fatalf("pixel %d of %d pieces: shares sum to %v, expected 1", i, len(pieces), s)
			}
		}
	}
}
