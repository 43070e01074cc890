package deflate

import (
	"math/rand/v2"
	"testing"

	"leat/internal/guardtest"
)

// TestVectorsFindSameEnds compares the ends of matches with those that matchEnd finds, in memory
// whose neighbours can't be accessed.
func TestVectorsFindSameEnds(t *testing.T) {
	if fastest == portable {
		t.Skip("the processor has no AVX2 or no BMI2")
	}
	const most = 3000
	memory := guardtest.New(most)
	r := rand.New(rand.NewPCG(3, 14))
	for round := range 20000 {
		n := 1 + r.IntN(most)
		src := [][]byte{memory.First(n), memory.Last(n)}[round&1]
		d := 1 + r.IntN(min(n, 1+r.IntN(600)))
		for i := range src {
			if i < d {
				src[i] = byte(r.IntN(2))
			} else {
				src[i] = src[i-d]
			}
		}
		if r.IntN(4) > 0 {
			src[r.IntN(n)] ^= 1 << r.IntN(8)
		}
		i := d + r.IntN(n-d+1)
		end := i + r.IntN(n-i+1)
		want := matchEnd(src, i, d, end)
		if got := repeatEnd(src, i, d, end); got != want {
			t.Fatalf("%d bytes, distance %d: from %d to %d, expected %d", end, d, i, got, want)
		}
		if d == 1 {
			if got := runEnd(src, i, end); got != want {
				t.Fatalf("%d bytes: a run from %d to %d, expected %d", end, i, got, want)
			}
		}
	}
}
