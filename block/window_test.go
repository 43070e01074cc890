package block

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// anyInt draws small numbers and numbers close to the limits of int.
func anyInt(t *rapid.T, name string) int {
	base := rapid.SampledFrom([]int{0, math.MinInt, math.MaxInt, math.MinInt / 2, math.MaxInt / 2}).Draw(t,
		name+" near")
	return base + rapid.IntRange(-20, 20).Draw(t, name) // may wrap to the other limit, which is as good
}

// clamp returns the int nearest to x.
func clamp(x *big.Int) int {
	switch {
	case x.IsInt64():
		return int(x.Int64())
	case x.Sign() < 0:
		return math.MinInt
	}
	return math.MaxInt
}

func TestWindowSaturates(t *testing.T) {
	sum := func(a, b int) *big.Int { return new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(b))) }
	rapid.Check(t, func(t *rapid.T) {
		w := Window{anyInt(t, "col"), anyInt(t, "row"), anyInt(t, "width"), anyInt(t, "height")}
		o := Window{anyInt(t, "col 2"), anyInt(t, "row 2"), anyInt(t, "width 2"), anyInt(t, "height 2")}
		inside := o.Width >= 0 && o.Height >= 0 && o.Col >= w.Col && o.Row >= w.Row &&
			sum(o.Col, o.Width).Cmp(sum(w.Col, w.Width)) <= 0 && sum(o.Row, o.Height).Cmp(sum(w.Row, w.Height)) <= 0
		if got := w.Contains(o); got != inside {
			t.Fatalf("%v contains %v: %v, expected %v", w, o, got, inside)
		}
		n := anyInt(t, "n")
		if got, want := w.Shift(n, -5), (Window{clamp(sum(w.Col, n)), clamp(sum(w.Row, -5)), w.Width,
			w.Height}); got != want {
			t.Fatalf("%v shifted by %d: %v, expected %v", w, n, got, want)
		}
		if n >= 0 && w.Width >= 0 {
			twice := new(big.Int).Add(big.NewInt(int64(w.Width)), new(big.Int).Mul(big.NewInt(2), big.NewInt(int64(n))))
			if got := w.Grow(n); got.Col > w.Col || got.Width != clamp(twice) {
				t.Fatalf("%v grown by %d: %v", w, n, got)
			}
		}
		both := w.Intersect(o)
		if both.Width < 0 || both.Height < 0 || !w.Empty() && !both.Empty() &&
			(both.Width > w.Width || !w.Contains(both) || !o.Contains(both)) {
			t.Fatalf("%v and %v have %v in common", w, o, both)
		}
		if !w.Empty() && !o.Empty() && sum(w.Col, w.Width).IsInt64() && sum(o.Col, o.Width).IsInt64() {
			if u := w.Union(o); u.Col != min(w.Col, o.Col) || u.Width < max(w.Width, o.Width) {
				t.Fatalf("%v and %v together are %v", w, o, u)
			}
		}
	})
}
