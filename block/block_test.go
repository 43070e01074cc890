package block

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBlocksCoverEachPixelOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{Width: rapid.IntRange(1, 50).Draw(t, "w"), Height: rapid.IntRange(1, 50).Draw(t, "h"),
			WindowWidth: rapid.IntRange(1, 60).Draw(t, "ww"), WindowHeight: rapid.IntRange(1, 60).Draw(t, "wh")}
		seen := make([]int, p.Width*p.Height)
		for n := range p.Count() {
			b := p.At(n)
			if b.Number != n || b.Row*p.Cols()+b.Col != n {
				t.Fatalf("block %d is numbered %+v", n, b)
			}
			for r := b.Window.Row; r < b.Window.Row+b.Window.Height; r++ {
				for c := b.Window.Col; c < b.Window.Col+b.Window.Width; c++ {
					seen[r*p.Width+c]++
				}
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("pixel %d is in %d blocks", i, n)
			}
		}
	})
}

func TestCountIntersecting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{Width: rapid.IntRange(1, 40).Draw(t, "w"), Height: rapid.IntRange(1, 40).Draw(t, "h"),
			WindowWidth: rapid.IntRange(1, 45).Draw(t, "ww"), WindowHeight: rapid.IntRange(1, 45).Draw(t, "wh"),
			Overlap: rapid.IntRange(0, 9).Draw(t, "overlap")}
		w := Window{rapid.IntRange(-60, 60).Draw(t, "c"), rapid.IntRange(-60, 60).Draw(t, "r"),
			rapid.IntRange(1, 30).Draw(t, "n"), rapid.IntRange(1, 30).Draw(t, "m")}
		want := 0
		for n := range p.Count() {
			if !p.At(n).Window.Grow(p.Overlap).Intersect(w).Empty() {
				want++
			}
		}
		if got := p.CountIntersecting(w); got != want {
			t.Fatalf("%+v touches %v: got %d, expected %d", p, w, got, want)
		}
	})
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		m               Margin
		x, lo, hi, want int
	}{
		{MarginReflect, -1, 0, 3, 0}, {MarginReflect, -3, 0, 3, 2}, {MarginReflect, 3, 0, 3, 2},
		{MarginReflect, 5, 0, 3, 0},
		{MarginReflect, 6, 0, 3, 0}, {MarginReflect, -4, 0, 3, 2}, {MarginReflect, 7, 5, 9, 7},
		{MarginReflect, 4, 5, 9, 5},
		{MarginNearest, -7, 0, 3, 0}, {MarginNearest, 9, 0, 3, 2}, {MarginNearest, 1, 0, 3, 1},
	} {
		if got := c.m.Fold(c.x, c.lo, c.hi); got != c.want {
			t.Errorf("%v.Fold(%d, %d, %d) = %d, expected %d", c.m, c.x, c.lo, c.hi, got, c.want)
		}
	}
}
