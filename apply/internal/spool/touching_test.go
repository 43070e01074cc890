package spool

import (
	"testing"

	"pgregory.net/rapid"

	"leat/block"
)

func TestCountTouching(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := block.Plan{Width: rapid.IntRange(1, 40).Draw(t, "w"), Height: rapid.IntRange(1, 40).Draw(t, "h"),
			WindowWidth: rapid.IntRange(1, 45).Draw(t, "ww"), WindowHeight: rapid.IntRange(1, 45).Draw(t, "wh"),
			Overlap: rapid.IntRange(0, 9).Draw(t, "overlap")}
		w := block.Window{Col: rapid.IntRange(-60, 60).Draw(t, "c"), Row: rapid.IntRange(-60, 60).Draw(t, "r"),
			Width: rapid.IntRange(1, 30).Draw(t, "n"), Height: rapid.IntRange(1, 30).Draw(t, "m")}
		want := 0
		for n := range p.Count() {
			if !p.At(n).Window.Grow(p.Overlap).Intersect(w).Empty() {
				want++
			}
		}
		if got := CountTouching(p, w); got != want {
			t.Fatalf("%+v touches %v: got %d, expected %d", p, w, got, want)
		}
	})
}
