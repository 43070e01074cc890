package expr

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"leat/block"
	"leat/internal/proctest"
	"leat/ndarray"
)

// focalScene is a raster for tests of focal functions. Its window is the domain.
type focalScene struct {
	*rand.Rand
	width, height int
	inputs        map[string]Input
	pixels        map[Ref]*ndarray.Array
	masks         map[Ref][]byte
}

func newScene(seed uint64, width, height int) *focalScene {
	s := &focalScene{Rand: rand.New(rand.NewPCG(seed, 7)), width: width, height: height, inputs: map[string]Input{},
		pixels: map[Ref]*ndarray.Array{}, masks: map[Ref][]byte{}}
	nodata := ndarray.Scalar{Type: ndarray.Uint8, Bits: 3}
	s.add("a", Band{Type: ndarray.Uint8, Nodata: &nodata}, func() float64 { return float64(s.IntN(12)) })
	s.add("b", Band{Type: ndarray.Float32, Masked: true}, func() float64 {
		if s.IntN(40) == 0 {
			return math.NaN()
		}
		return s.NormFloat64() * 100
	})
	s.add("c", Band{Type: ndarray.Float64}, s.NormFloat64)
	s.add("i", Band{Type: ndarray.Int32}, func() float64 { return float64(s.IntN(2000) - 1000) })
	return s
}

func (s *focalScene) add(name string, b Band, pixel func() float64) {
	s.inputs[name] = Input{Files: []File{{Bands: []Band{b}}}}
	ref := Ref{Name: name, Band: 1}
	a := ndarray.New(b.Type, s.width*s.height)
	for i := range s.width * s.height {
		v, err := ndarray.ScalarFromFloat(pixel(), b.Type)
		if err != nil {
			panic(err)
		}
		put(b.Type, a.Data[i*b.Type.Size():], v)
	}
	s.pixels[ref] = a
	if b.Masked {
		mask := bytes.Repeat([]byte{1}, s.width*s.height)
		for range s.width {
			mask[s.IntN(len(mask))] = 0
		}
		s.masks[ref] = mask
	}
}

// compile compiles an expression for a window of the scene.
func (s *focalScene) compile(text string, w block.Window, m block.Margin) (*Program, error) {
	return compileText(text, s.inputs, &Options{Width: w.Width, Height: w.Height, Margin: m,
		Domain: block.Window{Width: s.width, Height: s.height}.Shift(-w.Col, -w.Row)})
}

// eval computes part of a window of the scene: all bands of all outputs. Pixels outside the scene
// have arbitrary values and are masked.
func (s *focalScene) eval(t *testing.T, p *Program, w, part block.Window, more int, counts ...*Counts) [][]byte {
	t.Helper()
	margin := p.Margin() + more
	in := part.Grow(margin)
	var src []Operand
	for i, ref := range p.Refs() {
		size := p.bandOf[i].Type.Size()
		o := Operand{Data: ndarray.New(p.bandOf[i].Type, int(in.Pixels())).Data, Mask: make([]byte, in.Pixels())}
		for k := range int(in.Pixels()) {
			x, y := w.Col+in.Col+k%in.Width, w.Row+in.Row+k/in.Width
			if x < 0 || y < 0 || x >= s.width || y >= s.height {
				for b := range size {
					o.Data[k*size+b] = byte(s.Uint32())
				}
				continue
			}
			at := y*s.width + x
			copy(o.Data[k*size:], s.pixels[ref].Data[at*size:(at+1)*size])
			o.Mask[k] = 1
			if m := s.masks[ref]; m != nil {
				o.Mask[k] = m[at]
			}
		}
		src = append(src, o)
	}
	var dst [][]byte
	for _, o := range p.Outputs() {
		for range o.Bands() {
			dst = append(dst, ndarray.New(o.Type(), int(part.Pixels())).Data)
		}
	}
	f := Frame{Place: Place{Col: part.Col, Row: part.Row, Columns: part.Width,
		Transform: [6]float64{1000 + 32*float64(w.Col), 32, 0, 5000 - 32*float64(w.Row), 0, -32}},
		Rows: part.Height, Margin: margin}
	ev := p.NewEvaluator()
	if err := ev.EvalWindow(f, src, dst, counts...); err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	if ev.focal != nil {
		var held int64
		for _, m := range ev.focal.slots {
			held += int64(4*cap(m.v32) + 8*cap(m.v64) + cap(m.valid))
			if m.v32 != nil && m.v64 != nil {
				t.Fatalf("%v: a slot holds planes of both types", p)
			}
		}
		if most := p.ScratchBytes(part.Width, part.Height); held > most {
			t.Fatalf("%v: planes of %v hold %d bytes, planned are %d", p, part, held, most)
		}
	}
	return dst
}

// text returns a random expression with focal functions.
func (s *focalScene) text(depth int) string {
	if depth == 0 {
		return []string{"a", "b", "c", "i", "x", "a > 4", "2.5", "(b + a)"}[s.IntN(8)]
	}
	inner := s.text(depth - 1)
	side := fmt.Sprint(1 + 2*s.IntN(4))
	if s.IntN(3) == 0 {
		side = fmt.Sprintf("disk(%v)", float64(s.IntN(8))/2)
	}
	switch s.IntN(9) {
	case 0:
		return fmt.Sprintf("shift(%s, %d, %d)", inner, s.IntN(13)-6, s.IntN(13)-6)
	case 1:
		k := []string{"[[1, 2, 3]]", "[[0.5], [-1], [0]]", "[[0, 1, 0], [1, -4.25, 1], [0, 1, 0]]", "[[7]]"}[s.IntN(4)]
		return fmt.Sprintf("convolve(%s, %s)", inner, k)
	case 2:
		f := []string{"slope(%s)", "aspect(%s)", "hillshade(%s, 200, 30)", "tpi(%s)", "tri(%s)", "roughness(%s)",
			"curvature(%s, 2)"}[s.IntN(7)]
		return fmt.Sprintf(f, inner)
	case 3:
		return fmt.Sprintf("(%s - %s)", inner, s.text(depth-1))
	case 4:
		return fmt.Sprintf("(isnodata(%s) ? %s : %s)", inner, s.text(depth-1), inner)
	}
	name := []string{"mean", "sum", "min", "max", "median", "std", "range", "mode", "count"}[s.IntN(9)]
	return fmt.Sprintf("focal_%s(%s, %s)", name, inner, side)
}

// TestFocalWindows checks that each division of a window into parts, and each window of the scene,
// has the bits of the whole.
func TestFocalWindows(t *testing.T) {
	rounds := proctest.Rounds(60, 180, 600)
	computed := 0
	for seed := range uint64(rounds) {
		s := newScene(seed, 37, 29)
		text := s.text(1 + s.IntN(3))
		if s.IntN(3) == 0 {
			text = "v = " + text + "; v + focal_mean(v, 3) * shift(v, 1, 1)"
		}
		margin := block.Margin(s.IntN(3))
		all := block.Window{Width: s.width, Height: s.height}
		p, err := s.compile(text, all, margin)
		if err != nil {
			if !strings.Contains(err.Error(), "2^53") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if e, _ := Parse(text); e.Margin() != p.Margin() {
			t.Errorf("%s: the margin is %d, that of the text %d", text, p.Margin(), e.Margin())
		}
		computed++
		whole := s.eval(t, p, all, all, 0)[0]
		w := block.Window{Col: s.IntN(20), Row: s.IntN(15), Width: 1 + s.IntN(17), Height: 1 + s.IntN(14)}
		if p, err = s.compile(text, w, margin); err != nil {
			t.Fatal(err)
		}
		size := p.Type().Size()
		columns, rows := 1+s.IntN(w.Width), 1+s.IntN(w.Height)
		for row := 0; row < w.Height; row += rows {
			for col := 0; col < w.Width; col += columns {
				part := block.Window{Col: col, Row: row, Width: min(columns, w.Width-col),
					Height: min(rows, w.Height-row)}
				got := s.eval(t, p, w, part, s.IntN(3))[0]
				for y := range part.Height {
					at, n := ((w.Row+row+y)*s.width+w.Col+col)*size, part.Width*size
					if line, want := got[y*n:(y+1)*n], whole[at:at+n]; !bytes.Equal(line, want) {
						t.Fatalf("%s, margin %v, seed %d: row %d of part %v of window %v differs:\n%v\n%v", text, margin,
							seed, y, part, w, line, want)
					}
				}
			}
		}
	}
	if computed < rounds/2 {
		t.Errorf("only %d of %d expressions were computed", computed, rounds)
	}
}

// TestFocalStrips checks that windows of several strips have the bits of single rows.
func TestFocalStrips(t *testing.T) {
	s := newScene(1, 3000, 90)
	all := block.Window{Width: s.width, Height: s.height}
	for _, text := range []string{"focal_mean(b, 5) - focal_std(focal_max(b, 3), disk(2))", "slope(c) + focal_median(a, 3)"} {
		p, err := s.compile(text, all, block.MarginReflect)
		if err != nil {
			t.Fatal(err)
		}
		if rows := p.focal.stripRows(all.Width, all.Height); rows >= all.Height {
			t.Fatalf("%s: one strip of %d rows", text, rows)
		}
		whole, size := s.eval(t, p, all, all, 0)[0], p.Type().Size()
		for row := 0; row < all.Height; row += 7 {
			part := block.Window{Row: row, Width: all.Width, Height: 1}
			got := s.eval(t, p, all, part, 0)[0]
			if !bytes.Equal(got, whole[row*all.Width*size:(row+1)*all.Width*size]) {
				t.Fatalf("%s: row %d differs", text, row)
			}
		}
	}
}

// TestNestedFocalEqualsTwoRuns checks that a call of a call equals a call that reads the result of
// the other from a file.
func TestNestedFocalEqualsTwoRuns(t *testing.T) {
	s := newScene(3, 31, 23)
	all := block.Window{Width: s.width, Height: s.height}
	outer := []string{"focal_mean(%s, 5)", "focal_max(%s, disk(2))", "slope(%s)", "shift(%s, -3, 2)", "focal_median(%s, 3)"}
	for m := range block.Margin(3) {
		for _, inner := range []string{"focal_mean(b, 3)", "slope(b)", "shift(b, 4, 4)", "focal_min(b + a, disk(1))"} {
			p, err := s.compile(inner, all, m)
			if err != nil {
				t.Fatal(err)
			}
			first := s.eval(t, p, all, all, 0)[0]
			s.inputs["f"] = Input{Files: []File{{Bands: []Band{{Type: ndarray.Float32, Nodata: p.Nodata()}}}}}
			s.pixels[Ref{Name: "f", Band: 1}] = ndarray.FromBytes(ndarray.Float32, first, s.width*s.height)
			for _, f := range outer {
				twice, err := s.compile(fmt.Sprintf(f, "f"), all, m)
				if err != nil {
					t.Fatal(err)
				}
				nested, err := s.compile(fmt.Sprintf(f, inner), all, m)
				if err != nil {
					t.Fatal(err)
				}
				want, got := s.eval(t, twice, all, all, 0)[0], s.eval(t, nested, all, all, 0)[0]
				for i := range s.width * s.height {
					a, b := ndarray.Cast[float32](want)[i], ndarray.Cast[float32](got)[i]
					if a != b && (a == a || b == b) {
						t.Fatalf("%s of %s, margin %v: pixel %d is %v, in two runs %v", f, inner, m, i, b, a)
					}
				}
			}
		}
	}
}

func TestFocalPlan(t *testing.T) {
	s := newScene(1, 20, 20)
	all := block.Window{Width: 20, Height: 20}
	for _, c := range []struct {
		text                 string
		steps, slots, margin int
	}{
		{"focal_mean(a, 5)", 2, 2, 2},
		{"focal_mean(a, 5) + focal_mean(a, 5)", 2, 2, 2},
		{"focal_mean(a, 5) - focal_max(a, 3)", 3, 3, 2},
		{"focal_mean(focal_mean(focal_mean(a, 3), 5), 7)", 6, 2, 6},
		{"v = focal_min(a, 3); focal_mean(v, 3) + v", 4, 3, 2},
		{"v = focal_min(a, 301); a", 0, 0, 0},
		{"shift(a, 0, -9)", 2, 2, 9},
		{"focal_mean(float64(focal_mean(a, 3)), 5) + focal_mean(float32(focal_mean(float64(a), 3)), 5)", 8, 5, 3},
	} {
		p, err := s.compile(c.text, all, block.MarginNodata)
		if err != nil {
			t.Fatal(err)
		}
		plan := p.focal
		if plan == nil {
			plan = &focalPlan{}
		}
		if len(plan.steps) != c.steps || len(plan.slots) != c.slots || p.Margin() != c.margin {
			t.Errorf("%s: %d steps, %d slots, margin %d, expected %+v", c.text, len(plan.steps), len(plan.slots), p.Margin(), c)
		}
	}
}

// Planes of both types follow each other: eval checks their memory.
func TestSlotsOfBothTypes(t *testing.T) {
	s := newScene(1, 40, 30)
	all := block.Window{Width: 40, Height: 30}
	p, err := s.compile("focal_mean(float64(focal_mean(a, 3)), 5) + focal_mean(float32(focal_mean(float64(a), 3)), 5)", all,
		block.MarginNodata)
	if err != nil {
		t.Fatal(err)
	}
	s.eval(t, p, all, all, 0)
}

func TestFocalErrors(t *testing.T) {
	s := newScene(1, 20, 20)
	for text, want := range map[string]string{
		"focal_mean(a)":                        "has 1 arguments",
		"focal_mean(a, 0)":                     "odd literal integer from 1 to 1001",
		"focal_mean(a, 1003)":                  "odd literal integer from 1 to 1001",
		"focal_mean(a, 3.0)":                   "odd literal integer",
		"focal_mean(a, -3)":                    "odd literal integer",
		"focal_mean(a, a[2])":                  "odd literal integer",
		"focal_mean(a[2], 3)":                  "index 2 is out of range",
		"focal_mean(nodata, 3)":                "nodata can only be a branch",
		"focal_mean(a, disk(501))":             "the radius of a disk must be a literal number from 0 to 500",
		"focal_mean(a, disk(a))":               "the radius of a disk",
		"a + disk(3)":                          "in place of a side",
		"shift(a, 1)":                          "has 2 arguments",
		"shift(a, 1.5, 0)":                     "literal integers from -1000 to 1000",
		"shift(a, 0, 1001)":                    "literal integers from -1000 to 1000",
		"convolve(a, 3)":                       "rows of numbers",
		"convolve(a, [1, 2, 1])":               "rows of numbers",
		"convolve(a, [[1], 2, [1]])":           "row 2 of the kernel must be numbers",
		"convolve(a, [[1, 2, 3], [1]])":        "row 2 of the kernel has 1 numbers, row 1 has 3",
		"convolve(a, [[1, 2, 3], [1, 2, 3]])":  "2 rows and 3 columns: both must be odd",
		"convolve(a, [[a]])":                   "a weight of the kernel must be a finite number",
		"convolve(a, [[inf]])":                 "a weight of the kernel must be a finite number",
		"convolve(a, [[nan]])":                 "a weight of the kernel must be a finite number",
		"slope(a, 0)":                          "the scale must be a number greater than 0",
		"slope(a, -1)":                         "the scale must be a number greater than 0",
		"slope(a, inf)":                        "the scale must be a number greater than 0",
		"slope(a, b)":                          "the scale must be a number greater than 0",
		"hillshade(a, 315, 91)":                "the altitude must be a number from 0 to 90",
		"hillshade(a, 400)":                    "the azimuth must be a number from -360 to 360",
		"focal_sum(i * i * i * 1000000, 1001)": "2^53",
	} {
		_, err := s.compile(text, block.Window{Width: 20, Height: 20}, block.MarginNodata)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	for _, text := range []string{"slope(a)", "hillshade(a)", "curvature(a)"} {
		for ground, want := range map[Ground]string{GroundDegrees: "units of height in a degree", NoGround: "not georeferenced",
			UnknownGround: "units of height in a unit of the grid"} {
			_, err := compileText(text, s.inputs, &Options{Ground: ground})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, expected %q", text, err, want)
			}
		}
	}
	for _, text := range []string{"slope(a, 111120)", "aspect(a)", "tri(a)"} {
		for _, ground := range []Ground{GroundDegrees, UnknownGround} {
			if _, err := compileText(text, s.inputs, &Options{Ground: ground}); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
