package expr

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"leat/ndarray"
)

// horner returns a polynomial of n terms in a in Horner's form; powers returns it as a sum.
func horner(n int) string {
	s := "0.5"
	for i := 1; i < n; i++ {
		s = fmt.Sprintf("(%s) * a + %.3f", s, 0.5+float64(i%7)/8)
	}
	return s
}

func powers(n int) string {
	var terms []string
	for i := range n {
		terms = append(terms, fmt.Sprintf("%.3f * float32(a)**%d", 0.5+float64(i%7)/8, i))
	}
	return strings.Join(terms, " + ")
}

// benchmarkExpr evaluates text over a window of 512 x 512 pixels on one core. The share invalid of
// the pixels equals the inputs' nodata.
func benchmarkExpr(b *testing.B, text string, inputs map[string]Input, invalid float64) {
	e, err := Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	p, err := Compile(e, inputs, nil)
	if err != nil {
		b.Fatal(err)
	}
	const n = 512 * 512
	r := rand.New(rand.NewPCG(1, 1))
	var src []Operand
	for _, ref := range p.Refs() {
		d := inputs[ref.Name].Files[ref.File].Bands[ref.Band-1].Type
		a := ndarray.New(d, n)
		switch d {
		case ndarray.Uint16:
			for i, s := 0, ndarray.Slice[uint16](a); i < n; i++ {
				if s[i] = uint16(1 + r.IntN(10000)); r.Float64() < invalid {
					s[i] = 0
				}
			}
		case ndarray.Float32:
			for i, s := 0, ndarray.Slice[float32](a); i < n; i++ {
				s[i] = 0.5 + r.Float32()
			}
		}
		src = append(src, Operand{Data: a.Data})
	}
	var dst [][]byte
	for range p.Bands() {
		dst = append(dst, ndarray.New(p.Type(), n).Data)
	}
	ev := p.NewEvaluator()
	b.SetBytes(int64(n * p.Type().Size()))
	b.ReportAllocs()
	for b.Loop() {
		if err := ev.Eval(src, dst, n, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/pixel")
}

func oneBand(d ndarray.DType, nodata bool) Input {
	band := Band{Type: d}
	if nodata {
		s, _ := ndarray.ScalarFromFloat(0, d)
		band.Nodata = &s
	}
	return Input{Files: []File{{Bands: []Band{band}}}}
}

func dates(n int, d ndarray.DType, nodata bool) Input {
	in := Input{List: true}
	for range n {
		in.Files = append(in.Files, oneBand(d, nodata).Files[0])
	}
	return in
}

func BenchmarkNDVI(b *testing.B) {
	const text = "(nir - red) / (nir + red)"
	plain, nodata := oneBand(ndarray.Uint16, false), oneBand(ndarray.Uint16, true)
	b.Run("uint16", func(b *testing.B) { benchmarkExpr(b, text, map[string]Input{"nir": plain, "red": plain}, 0) })
	b.Run("uint16/nodata=0%", func(b *testing.B) {
		benchmarkExpr(b, text,
			map[string]Input{"nir": nodata, "red": nodata}, 0)
	})
	b.Run("uint16/nodata=10%", func(b *testing.B) {
		benchmarkExpr(b, text,
			map[string]Input{"nir": nodata, "red": nodata}, 0.1)
	})
	f := oneBand(ndarray.Float32, false)
	b.Run("float32", func(b *testing.B) { benchmarkExpr(b, text, map[string]Input{"nir": f, "red": f}, 0) })
}

func BenchmarkPolynomial(b *testing.B) {
	for _, d := range []ndarray.DType{ndarray.Float32, ndarray.Uint16} {
		in := map[string]Input{"a": oneBand(d, false)}
		b.Run(fmt.Sprintf("horner50/%v", d), func(b *testing.B) { benchmarkExpr(b, horner(50), in, 0) })
		b.Run(fmt.Sprintf("powers50/%v", d), func(b *testing.B) { benchmarkExpr(b, powers(50), in, 0) })
	}
}

func BenchmarkMedian(b *testing.B) {
	for _, n := range []int{3, 12, 40} {
		b.Run(fmt.Sprintf("dates=%d/uint16", n), func(b *testing.B) {
			benchmarkExpr(b, "median(t)", map[string]Input{"t": dates(n, ndarray.Uint16, false)}, 0)
		})
		b.Run(fmt.Sprintf("dates=%d/uint16/nodata=10%%", n), func(b *testing.B) {
			benchmarkExpr(b, "median(t)", map[string]Input{"t": dates(n, ndarray.Uint16, true)}, 0.1)
		})
	}
	b.Run("dates=12/float32", func(b *testing.B) {
		benchmarkExpr(b, "median(t)", map[string]Input{"t": dates(12, ndarray.Float32, false)}, 0)
	})
	b.Run("percentile/dates=12/uint16", func(b *testing.B) {
		benchmarkExpr(b, "percentile(t, 90)", map[string]Input{"t": dates(12, ndarray.Uint16, false)}, 0)
	})
	for _, d := range []ndarray.DType{ndarray.Uint16, ndarray.Float32} {
		b.Run(fmt.Sprintf("percentile/dates=12/%v/nodata=10%%", d), func(b *testing.B) {
			benchmarkExpr(b, "percentile(t, 90)", map[string]Input{"t": dates(12, d, true)}, 0.1)
		})
	}
}

func BenchmarkOthers(b *testing.B) {
	u, f := oneBand(ndarray.Uint16, true), oneBand(ndarray.Float32, false)
	in := map[string]Input{"a": u, "b": u, "f": f, "t": dates(12, ndarray.Uint16, true)}
	for _, text := range []string{"a", "f", "a > b", "a + b", "a > 100 ? a : nodata", "a > 0 ? log(a) : nodata",
		"mean(t)", "std(t)", "max(t)",
		"percentile(t, 90)", "var(t)", "mode(t)", "first(t)", "argmax(t)", "trend(t)", "bit(a, 3)", "a & 0xff",
		"bits(a, 3, 5) in [1, 3]", "classify(f, [0.2, 0.4, 0.6])", "recode(a, [1, 2, 3], [10, 20, 30], 0)",
		"sqrt(f)", "exp(f)", "f ** 2.5", "a % b", "fill(a, 1)", "clip(a, 0, 100)", "float64(a) * 2"} {
		b.Run(strings.ReplaceAll(text, " ", ""), func(b *testing.B) { benchmarkExpr(b, text, in, 0.05) })
	}
}
