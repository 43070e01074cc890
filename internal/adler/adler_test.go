package adler

import (
	"bytes"
	"hash/adler32"
	"math/rand/v2"
	"testing"
)

func TestAdler32(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 300 {
		size := n * n / 7
		if n > 290 {
			size = n / 4 * longest / 20
		}
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(r.Uint32()) | byte(n&1)*0xff
		}
		want := adler32.Checksum(p)
		if got := Checksum(p); got != want {
			t.Fatalf("%d bytes: %08x, not %08x", len(p), got, want)
		}
		if got := portable(p, 1, 0); got != want {
			t.Fatalf("%d bytes without AVX2: %08x, not %08x", len(p), got, want)
		}
	}
}

// TestUpdateContinuesSums sums bytes in parts.
func TestUpdateContinuesSums(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	p := make([]byte, 3*longest)
	for i := range p {
		p[i] = byte(r.Uint32()) | byte(i>>14&1)*0xff
	}
	want := adler32.Checksum(p)
	for range 100 {
		sum := uint32(1)
		for rest := p; len(rest) > 0; {
			n := min(r.IntN(1<<r.IntN(18)), len(rest))
			sum = Update(sum, rest[:n])
			rest = rest[n:]
		}
		if sum != want {
			t.Fatalf("in parts %08x, not %08x", sum, want)
		}
	}
}

func BenchmarkAdler32(b *testing.B) {
	p := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	b.Run("here", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			Checksum(p)
		}
	})
	b.Run("stdlib", func(b *testing.B) {
		b.SetBytes(int64(len(p)))
		for b.Loop() {
			adler32.Checksum(p)
		}
	})
}
