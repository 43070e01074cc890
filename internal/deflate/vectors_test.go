package deflate

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/internal/guardtest"
)

// forVectors runs a test for all vectors of the processor but portable.
func forVectors(t *testing.T, test func(t *testing.T, v vectors)) {
	if fastest == portable {
		t.Skip("the processor has no AVX2, or it is switched off")
	}
	names := [...]string{avx2: "AVX2", avx512: "AVX-512"}
	for v := portable + 1; v <= fastest; v++ {
		t.Run(names[v], func(t *testing.T) { test(t, v) })
	}
}

// TestVectorsWriteSameLiterals compares the routines that write literals with the one in Go, over
// memory whose neighbours can't be accessed.
func TestVectorsWriteSameLiterals(t *testing.T) { forVectors(t, testWrite) }

func testWrite(t *testing.T, v vectors) {
	step := 8
	if v == avx512 {
		step = vector
	}
	const most = 4000
	source, memory := guardtest.New(most), guardtest.New(2*most)
	r := rand.New(rand.NewPCG(5, 8))
	var c code
	c.vectors = v
	for _, kind := range append([]string{"long words"}, kinds...) {
		full := made(kind, most)
		c.clear()
		for s := range 256 {
			c.lits[s] = 1
			if kind == "long words" { // all but a few words have the longest length
				c.lits[s] = 1 << max(0, 20-s)
			}
		}
		for _, b := range full {
			c.lits[b]++
		}
		if kind == "long words" {
			for i := range full {
				full[i] = byte(r.IntN(256))
			}
		}
		c.build()
		c.entries()
		for round := range 400 {
			n := r.IntN(most)
			if round < 300 {
				n = round
			}
			src := [][]byte{source.First(n), source.Last(n)}[round&1]
			copy(src, full[most-n:])
			held := uint64(r.IntN(8))
			acc := r.Uint64()

			want := make([]byte, 2*most)
			at, wantAcc, wantHeld := literals(want, 0, acc, held, &c.first, src)
			want = want[:at]

			bits := held
			for _, b := range src {
				bits += uint64(c.lens[b])
			}
			// With little memory after the words, the routine must stop early.
			out := memory.Last(int(bits/8) + 8 + r.IntN(2)*300)
			at, gotAcc, gotHeld, rest := v.write(&c, out, 0, acc, held, src)
			enough := len(out) > int(bits/8)+300
			if len(rest) > len(src) || len(rest)%step != len(src)%step || enough && len(rest) >= step {
				t.Fatalf("%s: %d of %d literals are left", kind, len(rest), len(src))
			}
			at, gotAcc, gotHeld = literals(out, at, gotAcc, gotHeld, &c.first, rest)
			same := gotHeld == wantHeld && (gotHeld == 0 || gotAcc>>(64-gotHeld) == wantAcc>>(64-wantHeld))
			if !same || !bytes.Equal(out[:at], want) {
				t.Fatalf("%s: %d literals after %d bits: other bits", kind, n, held)
			}
		}
	}
}

// TestVectorsChangeNoStream encodes with and without vectors.
func TestVectorsChangeNoStream(t *testing.T) { forVectors(t, testStreams) }

func testStreams(t *testing.T, v vectors) {
	for _, o := range layouts {
		with, without := NewEncoder(o), NewEncoder(o)
		with.code.vectors, without.code.vectors = v, portable
		for _, kind := range kinds {
			for _, n := range []int{64, 1000, 70000} {
				data := made(kind, n)
				a := with.AppendZlib(nil, data)
				if b := without.AppendZlib(nil, data); !slices.Equal(a, b) {
					t.Fatalf("%+v, %d bytes of %s: another stream without vectors", o, n, kind)
				}
			}
		}
	}
}

// TestVectorsCountSameLiterals compares the routines that count with the one in Go, over memory
// whose neighbours can't be accessed.
func TestVectorsCountSameLiterals(t *testing.T) { forVectors(t, testCount) }

func testCount(t *testing.T, v vectors) {
	const most = 4000
	source := guardtest.New(most)
	for _, kind := range kinds {
		full := made(kind, most)
		for round := range 1000 {
			n := round
			if round > 700 {
				n = most - round
			}
			src := [][]byte{source.First(n), source.Last(n)}[round&1]
			copy(src, full[most-n:])
			var got, want literalCounts
			if counted := v.count(&got, src); counted != n&^63 {
				t.Fatalf("%s: %d of %d bytes counted, expected %d", kind, counted, n, n&^63)
			}
			want.add(src[:n&^63])
			for b := range 256 {
				g, w := got[0][b]+got[1][b]+got[2][b]+got[3][b], want[0][b]+want[1][b]+want[2][b]+want[3][b]
				if g != w {
					t.Fatalf("%s: %d bytes of %#x in %d bytes, expected %d", kind, g, b, n, w)
				}
			}
		}
	}
}

// TestVectorsFindSameRuns compares the routines that skip with their description, over memory whose
// neighbours can't be accessed.
func TestVectorsFindSameRuns(t *testing.T) { forVectors(t, testSkip) }

func testSkip(t *testing.T, v vectors) {
	const most = 600
	source := guardtest.New(most)
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 20000 {
		n := 1 + r.IntN(most-1)
		src := [][]byte{source.First(n), source.Last(n)}[round&1]
		for i := range src {
			src[i] = byte(r.IntN(256))
		}
		for range r.IntN(4) { // equal bytes
			at := r.IntN(n)
			for i := range min(1+r.IntN(9), n-at) {
				src[at+i] = src[at]
			}
		}
		from := 1 + r.IntN(n)
		want := from
		for last := from + (n-from)&^63; want < last; want += 8 {
			if x := load(src, want) ^ load(src, want-1); uint32(x) == 0 || x>>32 == 0 {
				break
			}
		}
		got := v.skip(src, from)
		if got != want {
			t.Fatalf("%d of %d bytes: place %d, expected %d", from, n, got, want)
		}
	}
}
