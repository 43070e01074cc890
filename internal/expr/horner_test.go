package expr

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"leat/ndarray"
)

// TestPolynomialsEqualSteps evaluates polynomials that become one instruction, and compares bits
// with separate products and sums.
func TestPolynomialsEqualSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for degree := 2; degree < 12; degree++ {
		text, k := "a", []float32{}
		for range degree {
			k = append(k, float32(r.NormFloat64()))
			form := []string{"(%s)*a + %v", "a*(%s) + %v", "%[2]v + (%[1]s)*a"}[r.IntN(3)]
			text = fmt.Sprintf(form, text, k[len(k)-1])
		}
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		band := File{Bands: []Band{{Type: ndarray.Float32}}}
		p, err := Compile(parsed, map[string]Input{"a": {Files: []File{band}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if degree > 4 && len(p.code) > 8 {
			t.Errorf("degree %d: %d instructions", degree, len(p.code))
		}
		for _, n := range []int{1, 63, 64, 65, 511, 512, 700} {
			a, out := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i] = float32(r.NormFloat64())
			}
			a[0] = float32(math.Inf(1))
			if err := p.NewEvaluator().Eval([]Operand{{Data: ndarray.BytesOf(a)}}, [][]byte{ndarray.BytesOf(out)}, n,
				nil); err != nil {
				t.Fatal(err)
			}
			for i, x := range a {
				want := x
				for _, k := range k {
					want = float32(want*x) + k
				}
				if want == want && math.Float32bits(out[i]) != math.Float32bits(want) {
					t.Fatalf("%s of %v is %v, expected %v", text, x, out[i], want)
				}
			}
		}
	}
}

// FuzzHorner compares the routine with the Go loop.
func FuzzHorner(f *testing.F) {
	for n := range uint64(20) {
		f.Add(n, 9*n, n)
	}
	f.Fuzz(func(t *testing.T, seed, length, count uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := int(length % 600)
		d, x, k := make([]float32, n), make([]float32, n), make([]float32, count%60)
		special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.NaN()), 1e-45,
			math.MaxFloat32}
		for _, s := range [][]float32{d, x, k} {
			for i := range s {
				if s[i] = float32(r.NormFloat64()); r.IntN(9) == 0 {
					s[i] = special[r.IntN(len(special))]
				}
			}
		}
		want := make([]float32, n)
		for i := range want {
			want[i] = d[i]
			for _, k := range k {
				want[i] = float32(want[i]*x[i]) + k
			}
		}
		polynomial(d, x, k)
		for i, v := range d {
			if w := want[i]; math.Float32bits(v) != math.Float32bits(w) && (v == v || w == w) {
				t.Fatalf("pixel %d of %d, %d constants: %v, expected %v", i, n, len(k), v, w)
			}
		}
	})
}
