package focal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// function is one of the package's functions and its definition.
type function struct {
	name      string
	footprint Footprint
	fixed     bool // the footprint is 3 x 3
	float64s  func(dst, src *Plane[float64], s *Scratch)
	float32s  func(dst, src *Plane[float32], s *Scratch)
	// of computes the result from the valid neighbours or, with all, from all of them, NaN where
	// invalid. It returns NaN for an invalid pixel. tolerance is the error allowed, as a share of
	// the result and of scale.
	of        func(neighbours []float64) (result, scale float64)
	all       bool
	tolerance float64
}

var cell = CellSize{10, -20, 2}

const azimuth, altitude = 300, 40

// functions returns all functions, with a footprint and the weights of a convolution.
func functions(f Footprint, weights [][]float64) []function {
	side := len(weights[0])
	var flat []float64
	for _, line := range weights {
		flat = append(flat, line...)
	}
	rect := Footprint{half: slices.Repeat([]int{side / 2}, len(weights)), widest: side / 2}
	three := Square(3)
	gradient := func(n []float64) (dx, dy float64) {
		return (n[2] + 2*n[5] + n[8] - n[0] - 2*n[3] - n[6]) / 8 / cell.X,
			(n[6] + 2*n[7] + n[8] - n[0] - 2*n[1] - n[2]) / 8 / cell.Y
	}
	return []function{
		{"mean", f, false, func(d, p *Plane[float64], s *Scratch) { Mean(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Mean(d, p, f, s) },
			func(n []float64) (float64, float64) { m, _, scale := momentsOf(n); return m, scale }, false, 1e-14},
		{"sum", f, false, func(d, p *Plane[float64], s *Scratch) { Sum(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Sum(d, p, f, s) },
			func(n []float64) (float64, float64) {
				m, _, scale := momentsOf(n)
				return m * float64(len(n)), scale * float64(len(n))
			}, false, 1e-14},
		{"std", f, false, func(d, p *Plane[float64], s *Scratch) { Std(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Std(d, p, f, s) },
			func(n []float64) (float64, float64) { _, v, _ := momentsOf(n); return v, 0 }, false, 1e-12},
		{"min", f, false, func(d, p *Plane[float64], s *Scratch) { Min(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Min(d, p, f, s) },
			func(n []float64) (float64, float64) { return slices.Min(n), 0 }, false, 0},
		{"max", f, false, func(d, p *Plane[float64], s *Scratch) { Max(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Max(d, p, f, s) },
			func(n []float64) (float64, float64) { return slices.Max(n), 0 }, false, 0},
		{"range", f, false, func(d, p *Plane[float64], s *Scratch) { Range(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Range(d, p, f, s) },
			func(n []float64) (float64, float64) { return slices.Max(n) - slices.Min(n), 0 }, false, 0},
		{"median", f, false, func(d, p *Plane[float64], s *Scratch) { Median(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Median(d, p, f, s) },
			func(n []float64) (float64, float64) {
				slices.Sort(n)
				return (n[(len(n)-1)/2] + n[len(n)/2]) / 2, 0
			}, false, 0},
		{"mode", f, false, func(d, p *Plane[float64], s *Scratch) { Mode(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Mode(d, p, f, s) },
			func(n []float64) (float64, float64) {
				counts := map[float64]int{}
				best := math.Inf(1)
				for _, v := range n {
					counts[v]++
				}
				for v, c := range counts {
					if c > counts[best] || c == counts[best] && v < best {
						best = v
					}
				}
				return best, 0
			}, false, 0},
		{"count", f, false, func(d, p *Plane[float64], s *Scratch) { Count(d, p, f, s) },
			func(d, p *Plane[float32], s *Scratch) { Count(d, p, f, s) },
			func(n []float64) (float64, float64) { return float64(len(n)), 0 }, false, 0},
		{"convolve", rect, true, func(d, p *Plane[float64], s *Scratch) { Convolve(d, p, weights, s) },
			func(d, p *Plane[float32], s *Scratch) { Convolve(d, p, weights, s) },
			func(n []float64) (sum, scale float64) {
				for i, w := range flat {
					if w != 0 {
						sum += w * n[i]
						scale += math.Abs(w * n[i])
					}
				}
				return sum, scale
			}, true, 1e-14},
		{"slope", three, true, func(d, p *Plane[float64], s *Scratch) { Slope(d, p, cell, s) },
			func(d, p *Plane[float32], s *Scratch) { Slope(d, p, cell, s) },
			func(n []float64) (float64, float64) {
				dx, dy := gradient(n)
				return math.Atan(math.Hypot(dx, dy)/cell.Scale) * 180 / math.Pi, scaleOf(n) / 100
			}, true, 1e-13},
		{"aspect", three, true, func(d, p *Plane[float64], s *Scratch) { Aspect(d, p, cell, s) },
			func(d, p *Plane[float32], s *Scratch) { Aspect(d, p, cell, s) },
			func(n []float64) (float64, float64) {
				east, north := gradient(n)
				if east == 0 && north == 0 {
					return math.NaN(), 0
				}
				return math.Mod(math.Atan2(-east, -north)*180/math.Pi+360, 360),
					scaleOf(n) / math.Hypot(east, north) * 100
			}, true, 1e-13},
		{"hillshade", three, true,
			func(d, p *Plane[float64], s *Scratch) { Hillshade(d, p, cell, azimuth, altitude, s) },
			func(d, p *Plane[float32], s *Scratch) { Hillshade(d, p, cell, azimuth, altitude, s) },
			func(n []float64) (float64, float64) {
				dx, dy := gradient(n)
				dx, dy = dx/cell.Scale, dy/cell.Scale
				az, alt := azimuth*math.Pi/180., altitude*math.Pi/180.
				cosine := math.Sin(alt) - math.Cos(alt)*(dx*math.Sin(az)+dy*math.Cos(az))
				return math.Floor(1.5 + 254*max(0, cosine/math.Sqrt(1+dx*dx+dy*dy))), 0
			}, true, 0},
		{"tpi", three, true, func(d, p *Plane[float64], s *Scratch) { TPI(d, p, s) },
			func(d, p *Plane[float32], s *Scratch) { TPI(d, p, s) },
			func(n []float64) (float64, float64) {
				m, _, scale := momentsOf(n)
				return (n[4] - m) * 9 / 8, scale
			}, true, 1e-14},
		{"tri", three, true, func(d, p *Plane[float64], s *Scratch) { TRI(d, p, s) },
			func(d, p *Plane[float32], s *Scratch) { TRI(d, p, s) },
			func(n []float64) (float64, float64) {
				sum := 0.0
				for _, v := range n {
					sum += (v - n[4]) * (v - n[4])
				}
				return math.Sqrt(sum), 0
			}, true, 1e-14},
		{"roughness", three, true, func(d, p *Plane[float64], s *Scratch) { Roughness(d, p, s) },
			func(d, p *Plane[float32], s *Scratch) { Roughness(d, p, s) },
			func(n []float64) (float64, float64) { return slices.Max(n) - slices.Min(n), 0 }, true, 0},
		{"curvature", three, true, func(d, p *Plane[float64], s *Scratch) { Curvature(d, p, cell, s) },
			func(d, p *Plane[float32], s *Scratch) { Curvature(d, p, cell, s) },
			func(n []float64) (float64, float64) {
				d, e := ((n[3]+n[5])/2-n[4])/(cell.X*cell.X), ((n[1]+n[7])/2-n[4])/(cell.Y*cell.Y)
				return -200 / (cell.Scale * cell.Scale) * (d + e), scaleOf(n)
			}, true, 1e-13},
	}
}

// momentsOf returns the mean, the standard deviation and the largest absolute value of numbers.
func momentsOf(n []float64) (mean, std, scale float64) {
	var rest float64 // of the differences from the first
	for _, v := range n {
		rest += (v - n[0]) / float64(len(n))
		scale = max(scale, math.Abs(v))
	}
	for _, v := range n {
		d := v - n[0] - rest
		std += d * d / float64(len(n))
	}
	return n[0] + rest, math.Sqrt(std), scale
}

func scaleOf(n []float64) float64 {
	_, _, scale := momentsOf(n)
	return scale
}

// raster is a whole raster; pixels outside are invalid.
type raster struct {
	values        []float64
	valid         []byte
	rows, columns int
}

// kinds are the kinds of values in random rasters.
var kinds = []string{"integers", "floats", "classes", "flat", "mean far from zero", "constant", "wide"}

func randomRaster(r *rand.Rand, kind string, rows, columns int, holes float64) raster {
	p := raster{make([]float64, rows*columns), make([]byte, rows*columns), rows, columns}
	for i := range p.values {
		var v float64
		switch kind {
		case "integers":
			v = float64(r.IntN(60000) - 20000)
		case "floats":
			v = r.NormFloat64() * 100
		case "classes":
			v = float64(r.IntN(5))
		case "flat":
			v = float64(r.IntN(40) / 39)
		case "mean far from zero":
			v = 1e6 + r.Float64()
		case "constant":
			v = 7.1
		case "wide":
			v = math.Ldexp(r.Float64()-0.5, r.IntN(60)-30)
		}
		p.values[i] = float64(float32(v))
		if r.Float64() >= holes {
			p.valid[i] = 1
		}
	}
	return p
}

// plane returns part of a raster. Invalid pixels have different values in each call.
func plane[T Float](r *rand.Rand, p raster, row, col, rows, columns int, maskless bool) *Plane[T] {
	b := &Plane[T]{make([]T, rows*columns), make([]byte, rows*columns), rows, columns, row, col}
	all := true
	for i := range b.Values {
		y, x := row+i/columns, col+i%columns
		if y < 0 || y >= p.rows || x < 0 || x >= p.columns || p.valid[y*p.columns+x] == 0 {
			b.Values[i] = []T{T(math.NaN()), T(math.Inf(1)), T(math.Inf(-1)), -1e30, 0, 1}[r.IntN(6)]
			all = false
			continue
		}
		b.Values[i] = T(p.values[y*p.columns+x])
		b.Valid[i] = 1
	}
	if all && maskless {
		b.Valid = nil
	}
	return b
}

// compute returns the results of a block.
func compute[T Float](t *testing.T, r *rand.Rand, f function, run func(dst, src *Plane[T], s *Scratch), p raster,
	row, col, rows, columns int, s *Scratch) *Plane[T] {
	margin, sides := f.footprint.Margin()
	margin, sides = margin+r.IntN(2), sides+r.IntN(3)
	src := plane[T](r, p, row-margin, col-sides, rows+2*margin, columns+2*sides, r.IntN(2) == 0)
	dst := &Plane[T]{Values: make([]T, rows*columns), Rows: rows, Columns: columns, Row: row, Col: col}
	for i := range dst.Values {
		dst.Values[i] = T(math.NaN())
	}
	if r.IntN(2) == 0 {
		dst.Valid = slices.Repeat([]byte{byte(r.IntN(2))}, rows*columns)
	}
	run(dst, src, s)
	if dst.Valid != nil && !slices.Contains(dst.Valid, 0) {
		t.Errorf("%s: all pixels are valid, but the block has a mask", f.name)
	}
	return dst
}

// check compares a block with the definition.
func check[T Float](t *testing.T, f function, p raster, b *Plane[T], unit float64) {
	t.Helper()
	margin, sides := f.footprint.Margin()
	for i, got := range b.Values {
		y, x := b.Row+i/b.Columns, b.Col+i%b.Columns
		var neighbours []float64
		missing := false
		for dy := -margin; dy <= margin; dy++ {
			h := f.footprint.half[dy+margin]
			for dx := -sides; dx <= sides; dx++ {
				v := math.NaN()
				if y+dy >= 0 && y+dy < p.rows && x+dx >= 0 && x+dx < p.columns && p.valid[(y+dy)*p.columns+x+dx] != 0 {
					v = p.values[(y+dy)*p.columns+x+dx]
				}
				switch {
				case f.all:
					neighbours = append(neighbours, v)
					missing = missing || v != v && f.name != "convolve"
				case dx*dx <= h*h && v == v:
					neighbours = append(neighbours, v)
				}
			}
		}
		want, scale := math.NaN(), 0.0
		if !missing && (len(neighbours) > 0 || f.name == "count") {
			want, scale = f.of(neighbours)
		}
		valid := b.Valid == nil || b.Valid[i] != 0
		if valid != (want == want) {
			t.Fatalf("%s at (%d, %d): valid %v, expected %v", f.name, y, x, valid, want)
		}
		if !valid {
			continue
		}
		limit := f.tolerance*(scale+math.Abs(want)) + unit*math.Abs(want)
		difference := math.Abs(float64(got) - want)
		if f.name == "aspect" {
			difference = min(difference, 360-difference)
		}
		if T(want) != got && !(difference <= limit) {
			t.Fatalf("%s of %T at (%d, %d): %v, expected %v +- %g", f.name, got, y, x, got, want, limit)
		}
	}
}

func randomWeights(r *rand.Rand) [][]float64 {
	w := make([][]float64, 2*r.IntN(3)+1)
	n := 2*r.IntN(4) + 1
	for i := range w {
		for range n {
			w[i] = append(w[i], float64(r.IntN(9))/4-1)
		}
	}
	return w
}

func randomFootprint(t *testing.T, r *rand.Rand) Footprint {
	if r.IntN(2) == 0 {
		return Square(2*r.IntN(7) + 1)
	}
	f, err := Disk(r.Float64() * 7)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestResultsEqualDefinitions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Scratch
	for range 60 {
		kind := kinds[r.IntN(len(kinds))]
		p := randomRaster(r, kind, 1+r.IntN(30), 1+r.IntN(40), []float64{0, 0.05, 0.5, 1}[r.IntN(4)])
		for _, f := range functions(randomFootprint(t, r), randomWeights(r)) {
			check(t, f, p, compute(t, r, f, f.float64s, p, 0, 0, p.rows, p.columns, &s), 0)
			check(t, f, p, compute(t, r, f, f.float32s, p, 0, 0, p.rows, p.columns, &s), 1.0/(1<<24))
		}
		if t.Failed() {
			t.Fatal(kind)
		}
	}
}

func TestDivisionIntoBlocksLeavesBitsUnchanged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s Scratch
	for range 40 {
		p := randomRaster(r, kinds[r.IntN(len(kinds))], 1+r.IntN(40), 1+r.IntN(60), []float64{0, 0.01, 0.3}[r.IntN(3)])
		for _, f := range functions(randomFootprint(t, r), randomWeights(r)) {
			sameInBlocks(t, r, f, f.float64s, p, &s)
			sameInBlocks(t, r, f, f.float32s, p, &s)
		}
	}
}

func sameInBlocks[T Float](t *testing.T, r *rand.Rand, f function, run func(dst, src *Plane[T], s *Scratch), p raster,
	s *Scratch) {
	t.Helper()
	whole := compute(t, r, f, run, p, 0, 0, p.rows, p.columns, s)
	high, wide := 1+r.IntN(p.rows), 1+r.IntN(p.columns)
	for row := 0; row < p.rows; row += high {
		for col := 0; col < p.columns; col += wide {
			rows, columns := min(high, p.rows-row), min(wide, p.columns-col)
			part := compute(t, r, f, run, p, row, col, rows, columns, s)
			for i, v := range part.Values {
				at := (row+i/columns)*p.columns + col + i%columns
				valid := part.Valid == nil || part.Valid[i] != 0
				if valid != (whole.Valid == nil || whole.Valid[at] != 0) ||
					valid && math.Float64bits(float64(v)) != math.Float64bits(float64(whole.Values[at])) {
					t.Fatalf("%s of %T with blocks of %d x %d: %v (valid %v) at (%d, %d), in one block %v",
						f.name, v, high, wide, v, valid, row+i/columns, col+i%columns, whole.Values[at])
				}
			}
		}
	}
}

func TestBlocksWiderThanAStrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var s Scratch
	p := randomRaster(r, "floats", 6, 2*stripColumns+9, 0.001)
	disk, err := Disk(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, footprint := range []Footprint{Square(5), disk} {
		for _, f := range functions(footprint, [][]float64{{1, 2, 3}}) {
			b := compute(t, r, f, f.float32s, p, 0, 0, p.rows, p.columns, &s)
			check(t, f, p, b, 1.0/(1<<24))
			if limit := ScratchBytes(p.rows, p.columns, footprint); s.bytes() > limit {
				t.Errorf("%s holds %d bytes, expected at most %d", f.name, s.bytes(), limit)
			}
			sameInBlocks(t, r, f, f.float64s, p, &s)
		}
	}
}

func TestDisks(t *testing.T) {
	for _, radius := range []float64{0, 0.5, 1, math.Sqrt2, 2, math.Sqrt(5), 2.5, 5, 10, 13, 25} {
		f, err := Disk(radius)
		if err != nil {
			t.Fatal(err)
		}
		rows, columns := f.Margin()
		if rows != int(radius) || columns != int(radius) {
			t.Errorf("disk of radius %v: margin of %d and %d", radius, rows, columns)
		}
		n := 0
		for y := -30; y <= 30; y++ {
			for x := -30; x <= 30; x++ {
				in := y >= -rows && y <= rows && x*x <= f.half[y+rows]*f.half[y+rows]
				if in != (float64(x*x+y*y) <= radius*radius) {
					t.Errorf("disk of radius %v: (%d, %d) is in it: %v", radius, y, x, in)
				}
				if in {
					n++
				}
			}
		}
		if f.Size() != n {
			t.Errorf("disk of radius %v: size %d, expected %d", radius, f.Size(), n)
		}
	}
	for _, radius := range []float64{-1, math.NaN(), math.Inf(1), MaxRadius + 1} {
		if _, err := Disk(radius); err == nil {
			t.Errorf("disk of radius %v: no error", radius)
		}
	}
}

// full returns a plane without mask.
func full[T Float](rows, columns int, values ...T) *Plane[T] {
	return &Plane[T]{Values: slices.Clone(values), Rows: rows, Columns: columns}
}

func inner[T Float](src *Plane[T], margin int) *Plane[T] {
	rows, columns := src.Rows-2*margin, src.Columns-2*margin
	return &Plane[T]{Values: make([]T, rows*columns), Rows: rows, Columns: columns,
		Row: src.Row + margin, Col: src.Col + margin}
}

func TestInfinitiesAndHugeValues(t *testing.T) {
	inf := math.Inf(1)
	var s Scratch
	f := Square(3)
	for _, c := range []struct {
		name   string
		run    func(dst, src *Plane[float64])
		values []float64
		want   float64
	}{
		{"mean", func(d, p *Plane[float64]) { Mean(d, p, f, &s) }, []float64{0, 1, 2, 3, inf, 5, 6, 7, 8}, inf},
		{"sum", func(d, p *Plane[float64]) { Sum(d, p, f, &s) }, []float64{0, 1, 2, 3, -inf, 5, 6, 7, 8}, -inf},
		{"sum", func(d, p *Plane[float64]) { Sum(d, p, f, &s) }, []float64{0, 1, 2, 3, -inf, inf, 6, 7, 8}, math.NaN()},
		{"min", func(d, p *Plane[float64]) { Min(d, p, f, &s) }, []float64{inf, inf, inf, inf, inf, inf, inf, inf, inf}, inf},
		{"max", func(d, p *Plane[float64]) { Max(d, p, f, &s) }, []float64{0, 1, 2, 3, -inf, inf, 6, 7, 8}, inf},
		{"range", func(d, p *Plane[float64]) { Range(d, p, f, &s) }, []float64{0, 1, 2, 3, -inf, 5, 6, 7, 8}, inf},
		{"std", func(d, p *Plane[float64]) { Std(d, p, f, &s) }, []float64{0, 1, 2, 3, inf, 5, 6, 7, 8}, math.NaN()},
		{"std", func(d, p *Plane[float64]) { Std(d, p, f, &s) },
			[]float64{1e15, 1e15, 1e15, 1e15, 1e15 + 3, 1e15, 1e15, 1e15, 1e15}, math.Sqrt(8) / 3},
		{"median", func(d, p *Plane[float64]) { Median(d, p, f, &s) }, []float64{0, 1, inf, inf, inf, inf, 6, 7, inf}, inf},
		{"mode", func(d, p *Plane[float64]) { Mode(d, p, f, &s) }, []float64{0, 1, inf, inf, -inf, -inf, 6, 7, 5}, -inf},
		{"sum", func(d, p *Plane[float64]) { Sum(d, p, f, &s) }, slices.Repeat([]float64{1e308}, 9), inf},
		{"slope", func(d, p *Plane[float64]) { Slope(d, p, cell, &s) }, []float64{0, 1, 2, 3, 0, inf, 6, 7, 8}, 90},
	} {
		for _, masked := range []bool{false, true} {
			// The second pixel needs the third column, which has an invalid one.
			src := full(3, 4, c.values[0], c.values[1], c.values[2], 1, c.values[3], c.values[4], c.values[5], 1,
				c.values[6], c.values[7], c.values[8], 1)
			if masked {
				src.Valid = []byte{1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1}
			}
			dst := inner(src, 1)
			c.run(dst, src)
			got := dst.Values[0]
			near := math.Abs(got-c.want) < 1e-15*math.Abs(c.want)
			if !near && got != c.want && (got == got || c.want == c.want) {
				t.Errorf("%s of %v, with a mask %v: %v, expected %v", c.name, c.values, masked, got, c.want)
			}
		}
	}
}

func TestBlockWithoutItsMarginPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	src := full[float32](3, 3, make([]float32, 9)...)
	Mean(inner(src, 1), src, Square(5), &Scratch{})
}

func FuzzBlocks(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		var s Scratch
		p := randomRaster(r, kinds[r.IntN(len(kinds))], 1+r.IntN(20), 1+r.IntN(20), r.Float64())
		for _, f := range functions(randomFootprint(t, r), randomWeights(r)) {
			check(t, f, p, compute(t, r, f, f.float64s, p, 0, 0, p.rows, p.columns, &s), 0)
			sameInBlocks(t, r, f, f.float32s, p, &s)
		}
	})
}

// smoothen turns a raster into a landscape with slopes of a few degrees.
func smoothen(p raster) {
	for i := range p.values {
		x, y := float64(i%p.columns), float64(i/p.columns)
		p.values[i] = math.Round(10*(300*math.Sin(x/90)*math.Cos(y/70)+p.values[i]/300)) / 10
	}
}

func BenchmarkFunctions(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	disk, err := Disk(5)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		f    Footprint
	}{{"3x3", Square(3)}, {"11x11", Square(11)}, {"31x31", Square(31)}, {"disk5", disk}} {
		for _, f := range functions(c.f, [][]float64{{1, 2, 1}, {2, 4, 2}, {1, 2, 1}}) {
			if f.fixed && c.name != "3x3" {
				continue
			}
			for _, holes := range []float64{0, 0.1} {
				b.Run(fmt.Sprintf("%s/%s/holes=%v", f.name, c.name, holes), func(b *testing.B) {
					margin, _ := f.footprint.Margin()
					p := randomRaster(r, "floats", 512+2*margin, 512+2*margin, holes)
					if f.fixed {
						smoothen(p)
					}
					src := plane[float32](r, p, 0, 0, p.rows, p.columns, true)
					dst := inner(src, margin)
					valid := make([]byte, 512*512)
					var s Scratch
					b.ReportAllocs()
					for b.Loop() {
						dst.Valid = valid
						f.float32s(dst, src, &s)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(512*512), "ns/pixel")
				})
			}
		}
	}
}

// TestVerticalSlope checks a value that the routine for slopes relies on.
func TestVerticalSlope(t *testing.T) {
	for _, rise := range []float64{math.MaxFloat64, math.Inf(1)} {
		if a := atan(rise); a != math.Pi/2 {
			t.Errorf("arc tangent of %v is %v", rise, a)
		}
	}
}

// TestVectorTerrainEqualsGo compares the routines for float32 with the loops for float64.
func TestVectorTerrainEqualsGo(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, -math.MaxFloat32, 1e-40, 0,
		math.Copysign(0, -1)}
	var s Scratch
	for round := range 400 {
		rows, columns := 2, 1+r.IntN(40)
		narrow := &Plane[float32]{Rows: rows + 2, Columns: columns + 2}
		wide := &Plane[float64]{Rows: rows + 2, Columns: columns + 2}
		roughness := math.Pow(10, float64(r.IntN(12)-6))
		for range narrow.Rows * narrow.Columns {
			v := float32(r.NormFloat64() * roughness)
			switch {
			case round%4 == 1 && r.IntN(30) == 0:
				v = float32(special[r.IntN(len(special))])
			case round%4 == 2:
				v = float32(r.IntN(3))
			case round%4 == 3 && round > 300:
				v = 7
			}
			narrow.Values, wide.Values = append(narrow.Values, v), append(wide.Values, float64(v))
		}
		size := CellSize{math.Pow(10, float64(r.IntN(6)-3)), -math.Pow(10, float64(r.IntN(6)-3)), 1}
		az, alt := float64(r.IntN(361)), float64(r.IntN(91))
		got := &Plane[float32]{Rows: rows, Columns: columns, Row: 1, Col: 1, Values: make([]float32, rows*columns)}
		want := &Plane[float64]{Rows: rows, Columns: columns, Row: 1, Col: 1, Values: make([]float64, rows*columns)}
		for name, run := range map[string]func(){
			"slope":     func() { Slope(got, narrow, size, &s); Slope(want, wide, size, &s) },
			"hillshade": func() { Hillshade(got, narrow, size, az, alt, &s); Hillshade(want, wide, size, az, alt, &s) },
		} {
			run()
			for i, v := range want.Values {
				if g, w := got.Values[i], float32(v); math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
					t.Fatalf("%s of %d columns, cells %v, light %v %v: pixel %d is %v, expected %v", name, columns, size,
						az, alt, i, g, w)
				}
			}
		}
	}
}
