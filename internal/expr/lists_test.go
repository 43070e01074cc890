package expr

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"leat/ndarray"
)

// line returns the slope, the value at item 0 and the coefficient of determination of the line
// through valid items, computed exactly. ok is false where the coefficient is not defined.
func line(items []float32, valid []byte) (slope, intercept, r2 float64, ok bool) {
	sum := func(f func(x, y *big.Rat) *big.Rat) *big.Rat {
		s := new(big.Rat)
		for i, v := range items {
			if valid[i] != 0 {
				s.Add(s, f(big.NewRat(int64(i), 1), new(big.Rat).SetFloat64(float64(v))))
			}
		}
		return s
	}
	n := sum(func(_, _ *big.Rat) *big.Rat { return big.NewRat(1, 1) })
	sx := sum(func(x, _ *big.Rat) *big.Rat { return x })
	sy := sum(func(_, y *big.Rat) *big.Rat { return y })
	// n times the sum of products, less the product of the sums
	spread := func(f func(x, y *big.Rat) *big.Rat, a, b *big.Rat) *big.Rat {
		r := new(big.Rat).Mul(n, sum(f))
		return r.Sub(r, new(big.Rat).Mul(a, b))
	}
	xx := spread(func(x, _ *big.Rat) *big.Rat { return new(big.Rat).Mul(x, x) }, sx, sx)
	xy := spread(func(x, y *big.Rat) *big.Rat { return new(big.Rat).Mul(x, y) }, sx, sy)
	yy := spread(func(_, y *big.Rat) *big.Rat { return new(big.Rat).Mul(y, y) }, sy, sy)
	if xx.Sign() == 0 || yy.Sign() == 0 {
		return 0, 0, 0, false
	}
	m := new(big.Rat).Quo(xy, xx)
	slope, _ = m.Float64()
	b := new(big.Rat).Sub(sy, new(big.Rat).Mul(m, sx))
	intercept, _ = b.Quo(b, n).Float64()
	r := new(big.Rat).Mul(m, new(big.Rat).Quo(xy, yy))
	r2, _ = r.Float64()
	return slope, intercept, r2, true
}

func TestTrendEqualsExactLine(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, files := range []int{1, 2, 3, 12, 100} {
		const n = 60
		p, err := compileText("[trend(t), intercept(t), r2(t)]", map[string]Input{"t": dates(files, ndarray.Float32, true)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		base, spread := math.Pow(10, float64(r.IntN(7))), math.Pow(10, float64(r.IntN(5)-2))
		items, valid := make([][]float32, files), make([][]byte, files)
		src := make([]Operand, files)
		for i := range files {
			a := ndarray.New(ndarray.Float32, n)
			items[i], valid[i] = ndarray.Cast[float32](a.Data), make([]byte, n)
			for k := range n {
				items[i][k] = float32(base + spread*r.NormFloat64())
				if valid[i][k] = byte(r.IntN(4)); valid[i][k] == 0 {
					items[i][k] = float32(math.Inf(1)) // invalid items do not matter
				}
			}
			src[i] = Operand{Data: a.Data, Mask: valid[i]}
		}
		dst := outputs(p, n)
		if err := p.NewEvaluator().Eval(src, dst, n, nil); err != nil {
			t.Fatal(err)
		}
		for k := range n {
			var column []float32
			var mask []byte
			largest := 0.0
			for i := range files {
				column, mask = append(column, items[i][k]), append(mask, valid[i][k])
				if valid[i][k] != 0 {
					largest = max(largest, math.Abs(float64(items[i][k])))
				}
			}
			slope, intercept, r2, ok := line(column, mask)
			for b, want := range []float64{slope, intercept, r2} {
				got := float64(ndarray.Cast[float32](dst[b])[k])
				bound := math.Abs(want)/(1<<23) + 1e-12*largest
				if b == 2 {
					bound = 1e-6
				}
				switch {
				case !ok && b == 2 && got == got:
					t.Errorf("%d items, pixel %d: r2 is %v where there is none", files, k, got)
				case ok && !(math.Abs(got-want) <= bound):
					t.Errorf("%d items, pixel %d: value %d is %v, exactly %v", files, k, b, got, want)
				}
			}
		}
	}
}
