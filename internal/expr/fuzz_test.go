package expr

import (
	"errors"
	"strings"
	"testing"

	"leat/ndarray"
)

// For any text, Parse, Compile and Eval return a result or an error with a position.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{
		"(nir - red) / (nir + red)", "a > 0 ? log(a) : nodata", "median(t)", "[m[1], m[2]] ** 2",
		"not a < b <= 3 and isnodata(t[1])",
		"clip(m, 0x1f, .5e1) % -7", "coalesce(a, fill(t[2], -1))", "where(q, nodata, -a**2**3)", "count([t, a]) == 2",
		"std(t * 2)[1]",
		"a ^ b", "a && b", "((((", "1e999", "é + \xff", "[[[a]]]", "2 ** 53 + 1", "m + t", "hypot(a, b) // 2",
		"float32(z) / i", "min(a, b, t)",
		"d = ~i & 0xff; # bits\nd << bits(a, 1, 2) | bit(z, 3)", "a in [1, .5] & b not in [-1]", "pick(t, a) >> 3",
		"recode(a, [1, 2], [nodata, 7], classify(b, [0, 1e9]))", "percentile(t, 90) + quantile(m, .1) * mode([a, b])",
		"trend(t) / r2(m) - intercept([a, b, i])", "any(t) ? first(t) : last(m)", "argmin(t) == argmax(t * -1)", "var(m) = 3",
		"hypot(x - 1, y) + col * row",
	} {
		f.Add(s)
	}
	m := Input{Files: []File{{Bands: []Band{{Type: ndarray.Uint8}, {Type: ndarray.Int16, Scale: 0.1, Offset: -1}}}}}
	inputs := map[string]Input{"a": oneBand(ndarray.Uint8, true), "b": oneBand(ndarray.Float32, true), "m": m,
		"t": dates(3, ndarray.Uint16, true),
		"z": oneBand(ndarray.Uint64, false), "i": oneBand(ndarray.Int32, false), "nir": oneBand(ndarray.Uint16, false),
		"red": oneBand(ndarray.Uint16, false), "q": oneBand(ndarray.Float64, true)}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		var syntax *SyntaxError
		if err != nil {
			if !errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > len(text) || !strings.Contains(err.Error(),
				"column") {
				t.Fatalf("%v", err)
			}
			return
		}
		p, err := Compile(e, inputs, nil)
		var wrong *TypeError
		if err != nil {
			if !errors.As(err, &wrong) || wrong.Pos < 0 || wrong.Pos > len(text) {
				t.Fatalf("%v", err)
			}
			return
		}
		const n = 5
		var src []Operand
		for i := range p.Refs() {
			a := ndarray.New(p.bandOf[i].Type, n)
			for k := range a.Data {
				a.Data[k] = byte(k*37 + i)
			}
			src = append(src, Operand{Data: a.Data, Mask: []byte{1, 0, 255, 2, 1}})
		}
		var bad *PixelError
		err = p.NewEvaluator().EvalAt(Place{Columns: 2}, src, outputs(p, n), n, nil)
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("%v", err)
		}
	})
}
