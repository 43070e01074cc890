package adler

import (
	"hash/adler32"
	"math/rand/v2"
	"testing"

	"leat/internal/guardtest"
)

// TestReadsOnlyItsBytes sums bytes that begin or end at memory which can't be read. It tries every
// length around those that the loops take, every alignment, and the largest bytes.
func TestReadsOnlyItsBytes(t *testing.T) {
	const most = 70000
	memory := guardtest.New(most)
	r := rand.New(rand.NewPCG(1, 2))
	var lengths []int
	for n := range 700 {
		lengths = append(lengths, n)
	}
	for _, n := range []int{longest, 2 * longest} {
		for k := -40; k <= 40; k++ {
			lengths = append(lengths, n+k)
		}
	}
	for range 100 {
		lengths = append(lengths, r.IntN(most))
	}
	for _, kind := range []string{"noise", "0xff", "0"} {
		for i := range memory {
			memory[i] = map[string]byte{"noise": byte(r.Uint32()), "0xff": 0xff}[kind]
		}
		for _, n := range lengths {
			for _, p := range [][]byte{memory.First(n), memory.Last(n)} {
				want := adler32.Checksum(p)
				if got := Checksum(p); got != want {
					t.Fatalf("%d bytes of %s: %08x, not %08x", n, kind, got, want)
				}
				if got := portable(p, 1, 0); got != want {
					t.Fatalf("%d bytes of %s without AVX2: %08x, not %08x", n, kind, got, want)
				}
			}
		}
	}
}
