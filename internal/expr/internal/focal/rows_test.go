package focal

import (
	"math"
	"math/rand/v2"
	"testing"

	"leat/internal/guardtest"
	"leat/ndarray"
)

// guarded is memory for rows that end where memory can't be accessed.
type guarded struct{ dst, a, b, valid, count guardtest.Memory }

func lastOf[T ndarray.Element](m guardtest.Memory, n, size int) []T {
	return ndarray.Cast[T](m.Last(n * size))[:n:n]
}

func sameBits[T Float](a, b T) bool {
	return a != a && b != b || math.Float64bits(float64(a)) == math.Float64bits(float64(b))
}

// TestVectorRowsEqualGo compares the routines over rows with plain loops, for rows of all short
// lengths that end where memory can't be accessed.
func TestVectorRowsEqualGo(t *testing.T) {
	const most = 130
	g := &guarded{}
	for _, m := range []*guardtest.Memory{&g.dst, &g.a, &g.b, &g.valid, &g.count} {
		*m = guardtest.New(8 * most)
	}
	r := rand.New(rand.NewPCG(31, 31))
	for n := range most {
		compareRows[float32](t, r, g, n, 4)
		compareRows[float64](t, r, g, n, 8)
		compareCounts(t, r, g, n)
	}
}

func compareRows[T Float](t *testing.T, r *rand.Rand, g *guarded, n, size int) {
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1e-40, -1e-300, math.MaxFloat32, 1}
	a, b, dst := lastOf[T](g.a, n, size), lastOf[T](g.b, n, size), lastOf[T](g.dst, n, size)
	valid := g.valid.Last(n)
	for i := range n {
		a[i], b[i], valid[i] = T(r.NormFloat64()), T(r.NormFloat64()), byte(r.IntN(2))
		if r.IntN(2) == 0 {
			a[i], b[i] = T(special[r.IntN(len(special))]), T(special[r.IntN(len(special))])
		}
	}
	check := func(what string, want func(i int) T) {
		t.Helper()
		for i, v := range dst {
			if w := want(i); !sameBits(v, w) {
				t.Fatalf("%s: pixel %d of %d %T is %v, expected %v", what, i, n, v, v, w)
			}
		}
	}
	smaller(dst, a, b, 0, 0)
	check("smaller", func(i int) T { return min(a[i], b[i]) })
	larger(dst, a, b, 0, 0)
	check("larger", func(i int) T { return max(a[i], b[i]) })
	copy(dst, a)
	smaller(dst, dst, b, 0, 0)
	check("smaller in place", func(i int) T { return min(a[i], b[i]) })

	src := &Plane[T]{Values: a, Valid: valid}
	load(dst, src, 0, true, 7)
	check("load", func(i int) T { return a[i] })
	load(dst, src, 0, false, 7)
	check("load of valid pixels", func(i int) T {
		if valid[i] == 0 {
			return 7
		}
		return a[i]
	})
	wide := lastOf[float64](g.b, n, 8)
	for _, all := range []bool{true, false} {
		load(wide, src, 0, all, math.Inf(1))
		for i, v := range wide {
			want := float64(a[i])
			if !all && valid[i] == 0 {
				want = math.Inf(1)
			}
			if !sameBits(v, want) {
				t.Fatalf("load of %T: pixel %d of %d is %v, expected %v", dst, i, n, v, want)
			}
		}
	}
	for i := range wide {
		if wide[i] = 1e3 * r.NormFloat64(); r.IntN(3) == 0 {
			wide[i] = special[r.IntN(len(special))]
		}
	}
	means(dst, wide, nil, 121)
	check("means", func(i int) T { return T(wide[i]/121 + 0) })
	count := lastOf[int32](g.count, n, 4)
	for i := range count {
		count[i] = int32(r.IntN(4))
	}
	means(dst, wide, count, 121)
	check("means of valid pixels", func(i int) T { return T(wide[i]/float64(max(count[i], 1)) + 0) })
	sums, more := lastOf[float64](g.dst, n, 8), lastOf[float64](g.a, n, 8)
	add(sums, wide, more, 0, 0)
	for i, v := range sums {
		if !sameBits(v, wide[i]+more[i]) {
			t.Fatalf("sum %d of %d is %v, expected %v", i, n, v, wide[i]+more[i])
		}
	}
}

func compareCounts(t *testing.T, r *rand.Rand, g *guarded, n int) {
	valid, dst := g.valid.Last(n), lastOf[int32](g.dst, n, 4)
	for i := range valid {
		valid[i] = byte(r.IntN(2))
	}
	loadCounts(dst, valid)
	for i, v := range dst {
		if v != int32(valid[i]) {
			t.Fatalf("count %d of %d is %d, expected %d", i, n, v, valid[i])
		}
	}
	a, b := lastOf[int32](g.a, n, 4), lastOf[int32](g.b, n, 4)
	for i := range n {
		a[i], b[i] = int32(r.IntN(3)), r.Int32()-1<<16
	}
	add(dst, a, b, 0, 0)
	for i, v := range dst {
		if v != a[i]+b[i] {
			t.Fatalf("count %d of %d is %d, expected %d", i, n, v, a[i]+b[i])
		}
	}
	for i := range b {
		if b[i] = int32(r.IntN(2)); r.IntN(2) == 0 {
			b[i] *= 1 << r.IntN(31)
		}
	}
	findValid(valid, b)
	for i, v := range valid {
		if v != byte(min(b[i], 1)) {
			t.Fatalf("pixel %d of %d with %d valid neighbours is %d", i, n, b[i], v)
		}
	}
}
