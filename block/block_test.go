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
