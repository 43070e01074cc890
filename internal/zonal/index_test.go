package zonal

import (
	"math/rand/v2"
	"slices"
	"testing"

	"leat/block"
)

func TestIndexFindsAllZonesOfAWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, n := range []int{0, 1, 15, 16, 17, 300, 5000} {
		windows := make([]block.Window, n)
		for i := range windows {
			windows[i] = block.Window{Col: rng.IntN(1000) - 100, Row: rng.IntN(1000) - 100,
				Width: rng.IntN(30), Height: 1 + rng.IntN(30)}
		}
		x := NewIndex(windows)
		for range 50 {
			w := block.Window{Col: rng.IntN(900) - 50, Row: rng.IntN(900) - 50,
				Width: rng.IntN(200), Height: rng.IntN(200)}
			var want []int
			for i, o := range windows {
				if !o.Empty() && !o.Intersect(w).Empty() {
					want = append(want, i)
				}
			}
			if got := x.Append(nil, w); !slices.Equal(got, want) {
				t.Fatalf("%d zones: window %v has %v, expected %v", n, w, got, want)
			}
		}
	}
}

func TestIndexBytesPerZone(t *testing.T) {
	windows := make([]block.Window, 5000)
	for i := range windows {
		windows[i] = block.Window{Col: i % 70, Row: i / 70, Width: 1, Height: 1}
	}
	x := NewIndex(windows)
	if got := (16*cap(x.boxes) + 4*len(x.zones)) / len(windows); got > IndexBytesPerZone {
		t.Errorf("%d bytes for each zone, expected at most %d", got, IndexBytesPerZone)
	}
}
