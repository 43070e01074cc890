package expr

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/ndarray"
)

// eval computes text over one band per name and returns the first band of the output.
func eval[T ndarray.Element](t *testing.T, text string, opts *Options, bands map[string]*ndarray.Array,
	nodata string) ([]T, Counts, error) {
	t.Helper()
	inputs := map[string]Input{}
	n := 0
	for name, a := range bands {
		b := Band{Type: a.Type}
		if nodata != "" {
			s, err := ndarray.ParseScalar(nodata, a.Type)
			if err != nil {
				t.Fatal(err)
			}
			b.Nodata = &s
		}
		inputs[name] = Input{Files: []File{{Bands: []Band{b}}}}
		n = a.Len()
	}
	p, err := compileText(text, inputs, opts)
	if err != nil {
		t.Fatal(err)
	}
	var src []Operand
	for _, r := range p.Refs() {
		src = append(src, Operand{Data: bands[r.Name].Data})
	}
	out := ndarray.New(p.Type(), n)
	var c Counts
	err = p.NewEvaluator().Eval(src, [][]byte{out.Data}, n, &c)
	return ndarray.Slice[T](out), c, err
}

func TestEvalInParts(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(5, 5)), alone: true}
	for range 150 {
		c := g.oneCase()
		r := rand.New(rand.NewPCG(9, 9))
		inputs := map[string]Input{"a": oneBand(ndarray.Uint16, true), "b": oneBand(ndarray.Float32, false),
			"c": oneBand(ndarray.Int16, true),
			"m": {Files: []File{{Bands: []Band{{Type: ndarray.Uint8}, {Type: ndarray.Float64},
				{Type: ndarray.Int32}}}}}, "s": dates(6, ndarray.Float32, true)}
		p, err := compileText(c.Text, inputs, nil)
		if err != nil {
			continue
		}
		const n = 3*chunk + 77
		var src []Operand
		for _, ref := range p.Refs() {
			d := inputs[ref.Name].Files[ref.File].Bands[ref.Band-1].Type
			a := ndarray.New(d, n)
			for i := range n {
				v := float64(r.IntN(100))
				if i > chunk && d.IsFloat() { // NaN and nodata in some chunks only
					v = []float64{math.NaN(), math.Inf(1), 0, math.Copysign(0, -1), 0.5, 3}[r.IntN(6)]
				}
				s, err := ndarray.ScalarFromFloat(v, d)
				if err != nil {
					t.Fatal(err)
				}
				put(d, a.Data[i*d.Size():], s)
			}
			mask := make([]byte, n)
			for i := range mask {
				mask[i] = byte(r.IntN(3)) | one(i < chunk)
			}
			src = append(src, Operand{Data: a.Data, Mask: mask})
		}
		size := p.Type().Size()
		whole, parts := outputs(p, n), outputs(p, n)
		var want, got Counts
		place := Place{Row: 3, Columns: 10 * n, Transform: placeTransform} // one row
		if err := p.NewEvaluator().EvalAt(place, src, whole, n, &want); err != nil {
			t.Fatalf("%s: %v", c.Text, err)
		}
		ev := p.NewEvaluator()
		for off := 0; off < n; {
			m := min(n-off, 1+r.IntN(700))
			var s []Operand
			for i, o := range src {
				w := p.bandOf[i].Type.Size()
				s = append(s, Operand{Data: o.Data[off*w:], Mask: o.Mask[off:]})
			}
			var d [][]byte
			for _, b := range parts {
				d = append(d, b[off*size:])
			}
			place.Col = off
			if err := ev.EvalAt(place, s, d, m, &got); err != nil {
				t.Fatalf("%s: %v", c.Text, err)
			}
			off += m
		}
		for b := range whole {
			if !bytes.Equal(whole[b], parts[b]) {
				t.Errorf("%s: the bytes depend on the division", c.Text)
			}
		}
		want.FirstCollision, got.FirstCollision = 0, 0 // differs between calls
		if want != got {
			t.Errorf("%s: %s", c.Text, cmp.Diff(want, got))
		}
	}
}

func outputs(p *Program, n int) [][]byte {
	var d [][]byte
	for range p.Bands() {
		d = append(d, ndarray.New(p.Type(), n).Data)
	}
	return d
}

func TestConcurrentEvaluators(t *testing.T) {
	in := map[string]Input{"a": oneBand(ndarray.Uint16, true), "t": dates(5, ndarray.Uint16, true)}
	p, err := compileText("median(t) * 0.5 + (a > 3 ? a : nodata) ** 3.0 + sin(a)", in, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	var src []Operand
	for range p.Refs() {
		a := ndarray.New(ndarray.Uint16, n)
		for i, s := 0, ndarray.Slice[uint16](a); i < n; i++ {
			s[i] = uint16(i * 7919 % 100)
		}
		src = append(src, Operand{Data: a.Data})
	}
	want := outputs(p, n)
	if err := p.NewEvaluator().Eval(src, want, n, nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			ev, got := p.NewEvaluator(), outputs(p, n)
			for range 20 {
				if err := ev.Eval(src, got, n, nil); err != nil || !bytes.Equal(got[0], want[0]) {
					t.Errorf("another result: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestEvalAllocations(t *testing.T) {
	in := map[string]Input{"a": oneBand(ndarray.Uint16, true), "t": dates(5, ndarray.Uint16, true)}
	p, err := compileText("median(t) + std(t) + fill(a, 1) + (isnodata(a) ? 1 : a % 7)", in, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 4 * chunk
	var src []Operand
	for range p.Refs() {
		src = append(src, Operand{Data: ndarray.New(ndarray.Uint16, n).Data})
	}
	ev, dst := p.NewEvaluator(), outputs(p, n)
	var c Counts
	if a := testing.AllocsPerRun(10, func() { _ = ev.Eval(src, dst, n, &c) }); a > 0 {
		t.Errorf("%v allocations", a)
	}
}

func TestPixelErrorIsFirst(t *testing.T) {
	wide := make([]int64, 2000)
	wide[1500], wide[700] = 1<<53+1, -1<<60
	_, _, err := eval[int64](t, "a", nil, map[string]*ndarray.Array{"a": ndarray.FromSlice(wide, 2000)}, "")
	var bad *PixelError
	if !errors.As(err, &bad) || bad.Index != 700 || bad.Input != "a[1]" || !strings.Contains(err.Error(),
		"-1152921504606846976 is beyond 2^53") {
		t.Errorf("%v", err)
	}
	// A pixel that is nodata is not an error.
	if _, _, err = eval[int64](t, "a", nil, map[string]*ndarray.Array{"a": ndarray.FromSlice(wide[:1000], 1000)},
		"-1152921504606846976"); err != nil {
		t.Error(err)
	}
	zero := make([]uint8, 1000)
	for i := range 900 {
		zero[i] = 1
	}
	_, _, err = eval[uint8](t, "a", &Options{Nodata: "none"},
		map[string]*ndarray.Array{"a": ndarray.FromSlice(zero, 1000)}, "0")
	if !errors.As(err, &bad) || bad.Index != 900 || bad.Band != 1 || !strings.Contains(err.Error(), "fill(a, number)") {
		t.Errorf("%v", err)
	}
	// An earlier invalid pixel is reported first, in whatever order the two are found.
	mixed := ndarray.FromSlice(wide, 2000)
	zero = append(zero, make([]uint8, 1000)...)
	zero[600] = 0
	_, _, err = eval[uint8](t, "b + (a > 0)", &Options{Nodata: "none", Type: ndarray.Uint8},
		map[string]*ndarray.Array{"a": mixed, "b": ndarray.FromSlice(zero, 2000)}, "0")
	if !errors.As(err, &bad) || bad.Index != 0 {
		t.Errorf("%v", err) // a is 0 there
	}
	for i := range wide {
		wide[i] += 5 * int64(one(wide[i] == 0))
	}
	_, _, err = eval[uint8](t, "b + (a > 0)", &Options{Nodata: "none", Type: ndarray.Uint8},
		map[string]*ndarray.Array{"a": mixed, "b": ndarray.FromSlice(zero, 2000)}, "0")
	if !errors.As(err, &bad) || bad.Index != 600 || bad.Band != 1 {
		t.Errorf("%v", err)
	}
}

func TestCastRoundsAndSaturates(t *testing.T) {
	v := ndarray.FromSlice([]float32{0.5, 1.5, 2.5, -0.5, 254.5, 255.4, 255.5, 300, -1, float32(math.Inf(1)),
		float32(math.NaN()), 7}, 12)
	got, c, err := eval[uint8](t, "a", &Options{Type: ndarray.Uint8, Nodata: "7"}, map[string]*ndarray.Array{"a": v},
		"")
	if d := cmp.Diff([]uint8{0, 2, 2, 0, 254, 255, 255, 255, 0, 255, 7, 7}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if d := cmp.Diff(Counts{Pixels: 12, Invalid: 1, Saturated: 4, NodataCollision: 1, FirstCollision: 11}, c); d != "" {
		t.Error(d)
	}
	w := ndarray.FromSlice([]float64{1e300, 65519, 65520, 1.0009765625 + 1.0/2048 - 1e-12, 5e-8}, 5)
	half, c, err := eval[uint16](t, "a", &Options{Type: ndarray.Float16}, map[string]*ndarray.Array{"a": w}, "")
	if d := cmp.Diff([]uint16{0x7c00, 0x7bff, 0x7c00, 0x3c01, 1}, half); d != "" || err != nil || c.Saturated != 2 {
		t.Error(d, err, c)
	}
	i64, c, err := eval[int64](t, "a * 1e300", &Options{Type: ndarray.Int64},
		map[string]*ndarray.Array{"a": ndarray.FromSlice([]float64{1, -1}, 2)}, "")
	if d := cmp.Diff([]int64{math.MaxInt64, math.MinInt64}, i64); d != "" || err != nil || c.Saturated != 2 {
		t.Error(d, err, c)
	}
}

func TestStoreScaleAndOffset(t *testing.T) {
	v := ndarray.FromSlice([]float32{0.1234, -0.5, 1, 9}, 4)
	got, c, err := eval[int16](t, "a", &Options{Type: ndarray.Int16, Scale: 0.0001, Offset: 0.5},
		map[string]*ndarray.Array{"a": v}, "")
	if d := cmp.Diff([]int16{-3766, -10000, 5000, 32767}, got); d != "" || err != nil || c.Saturated != 1 {
		t.Error(d, err, c)
	}
}

func TestCounts(t *testing.T) {
	a := ndarray.FromSlice([]float32{0, 1, -1, float32(math.NaN()), float32(math.Inf(-1)), 4, -9999}, 7)
	got, c, err := eval[float32](t, "log(a)", nil, map[string]*ndarray.Array{"a": a}, "-9999")
	if err != nil || got[6] == got[6] || got[3] == got[3] || got[2] == got[2] || !math.IsInf(float64(got[0]), -1) {
		t.Error(got, err)
	}
	if d := cmp.Diff(Counts{Pixels: 7, Invalid: 4, NaN: 2, Inf: 1, FirstCollision: -1}, c); d != "" {
		t.Error(d)
	}
}

func TestIntegerNegativeZero(t *testing.T) {
	a := ndarray.FromSlice([]int8{0, -3}, 2)
	for _, text := range []string{"1 / (a * -1)", "1 / -a", "1 / (a * a)", "1 / (a % -2 * 0)", "1 / (0 * a)"} {
		got, _, err := eval[float32](t, text, nil, map[string]*ndarray.Array{"a": a}, "")
		if err != nil || !math.IsInf(float64(got[0]), 1) {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

func TestCompareDecimalsWithIntegers(t *testing.T) {
	a := ndarray.FromSlice([]uint16{2, 3, 4}, 3)
	for text, want := range map[string][]uint8{
		"a > 2.9999999999":  {0, 1, 1},
		"a >= 2.9999999999": {0, 1, 1},
		"a < 3.0000000001":  {1, 1, 0},
		"a <= 2.9999999999": {1, 0, 0},
		"a == 3.0000000001": {0, 0, 0},
		"a != 3.0000000001": {1, 1, 1},
		"3.0000000001 > a":  {1, 1, 0},
		"a < inf":           {1, 1, 1},
		"a > -1e300":        {1, 1, 1},
		"a == 3.0":          {0, 1, 0},
	} {
		got, _, err := eval[uint8](t, text, nil, map[string]*ndarray.Array{"a": a}, "")
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %s %v", text, d, err)
		}
	}
}

func TestEvalShortOperands(t *testing.T) {
	p, err := compileText("a", scene(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ev, full := p.NewEvaluator(), ndarray.New(ndarray.Uint16, 4).Data
	for _, c := range []struct {
		src []Operand
		dst [][]byte
	}{
		{nil, [][]byte{full}},
		{[]Operand{{Data: full[:6]}}, [][]byte{full}},
		{[]Operand{{Data: full, Mask: make([]byte, 3)}}, [][]byte{full}},
		{[]Operand{{Data: full}}, [][]byte{full[:6]}},
		{[]Operand{{Data: full}}, nil},
	} {
		if ev.Eval(c.src, c.dst, 4, nil) == nil {
			t.Error("no error")
		}
	}
}
