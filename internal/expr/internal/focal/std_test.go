package focal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// FuzzVectorMoments compares the routines of standard deviations and convolutions with Go.
func FuzzVectorMoments(f *testing.F) {
	for n := range uint64(40) {
		f.Add(n, n+7)
	}
	f.Fuzz(func(t *testing.T, seed, length uint64) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := int(length % 140)
		numbers := func() []float64 {
			v := make([]float64, n)
			for i := range v {
				v[i] = math.Ldexp(r.NormFloat64(), r.IntN(60)-30)
				if r.IntN(9) == 0 {
					v[i] = specials[r.IntN(len(specials))]
				}
			}
			return v
		}
		counts := func() []float64 {
			v := make([]float64, n)
			for i := range v {
				v[i] = float64(r.IntN(4))
			}
			return v
		}
		for _, some := range []bool{false, true} {
			a, b := moments{nil, numbers(), numbers(), numbers()}, moments{nil, numbers(), numbers(), numbers()}
			dst, na, nb := moments{nil, numbers(), numbers(), numbers()}, 3.0, 4.0
			if some {
				a.count, b.count, dst.count = counts(), counts(), counts()
			}
			want := make([][4]float64, n)
			for i := range want {
				if some {
					na, nb = a.count[i], b.count[i]
				}
				w := &want[i]
				switch w[3] = na + nb; {
				case nb == 0:
					w[0], w[1], w[2] = a.mean[i], a.low[i], a.squares[i]
				case na == 0:
					w[0], w[1], w[2] = b.mean[i], b.low[i], b.squares[i]
				default:
					w[0], w[1], w[2] = combineMoment(a.mean[i], a.low[i], a.squares[i],
						b.mean[i], b.low[i], b.squares[i], nb/(na+nb), na*nb/(na+nb))
				}
			}
			if r.IntN(2) == 0 {
				dst = a
			}
			if some {
				combineSomeMoments(dst, a, b)
			} else {
				combineMoments(dst, a, b, na, nb)
			}
			for i, w := range want {
				got := [4]float64{dst.mean[i], dst.low[i], dst.squares[i], w[3]}
				if some {
					got[3] = dst.count[i]
				}
				for k := range w {
					if !sameBits(got[k], w[k]) {
						t.Fatalf("pixel %d of %d with counts %v: %v, expected %v", i, n, some, got, w)
					}
				}
			}
		}
		m := moments{nil, numbers(), nil, numbers()}
		count := make([]int32, n)
		for i := range count {
			count[i] = int32(r.IntN(4))
		}
		for _, count := range [][]int32{nil, count} {
			to := make([]float32, n)
			deviations(to, m, count, 25)
			for i, v := range to {
				size := 25.0
				if count != nil {
					size = float64(max(count[i], 1))
				}
				if w := float32(math.Sqrt(m.squares[i]/size) + float64(0*m.mean[i])); !sameBits(v, w) {
					t.Fatalf("deviation %d of %d is %v, expected %v", i, n, v, w)
				}
			}
		}
		sum, values, weight := numbers(), make([]float32, n), r.NormFloat64()
		for i, v := range numbers() {
			values[i] = float32(v)
		}
		got := slices.Clone(sum)
		addProducts(got, values, weight)
		for i, v := range got {
			if w := sum[i] + float64(float64(values[i])*weight); !sameBits(v, w) {
				t.Fatalf("sum %d of %d is %v, expected %v", i, n, v, w)
			}
		}
	})
}
