package deflate

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/internal/guardtest"
)

// pixelData are bytes in which pairs of pixels repeat in different ways.
func pixelData(r *rand.Rand, p []byte) {
	values := 1 + r.IntN(1+r.IntN(400))
	for i := 0; i+1 < len(p); i += 2 {
		v := r.IntN(values)
		p[i], p[i+1] = byte(v), byte(-(v & 1))
	}
	for range r.IntN(10) { // repeats at any distance, and runs
		n, from, to := r.IntN(len(p)), r.IntN(len(p)), r.IntN(len(p))
		copy(p[to:min(to+n/(1+r.IntN(n+1)), len(p))], p[from:])
		for i := range min(r.IntN(300), len(p)-to) {
			p[to+i] = byte(values)
		}
	}
}

// TestVectorsFindSameCandidates compares the routines that find candidates with those in Go, in
// memory whose neighbours can't be accessed.
func TestVectorsFindSameCandidates(t *testing.T) { forVectors(t, testFind) }

func testFind(t *testing.T, v vectors) {
	const most = 72 << 10
	memory := guardtest.New(most)
	r := rand.New(rand.NewPCG(2, 7))
	var got, want candidates
	var gotTable, wantTable pairTable
	for round := range 400 {
		size := 2*groupPixels + 6 + r.IntN(most-2*groupPixels-6)
		src := [][]byte{memory.First(size), memory.Last(size)}[round&1]
		pixelData(r, src)
		clear(gotTable[:])
		clear(wantTable[:])
		for at := r.IntN(2); at+8 <= size; {
			n := min(1+r.IntN(groupPixels), (size-at-6)/2)
			got.find(v, &gotTable, src, at, n)
			want.find(portable, &wantTable, src, at, n)
			groups := (n + 63) / 64
			same := slices.Equal(got.dists[:n], want.dists[:n]) && slices.Equal(got.lens[:n], want.lens[:n])
			if !same || !slices.Equal(got.found[:groups], want.found[:groups]) || gotTable != wantTable {
				t.Fatalf("%d pixels from %d of %d bytes on: other candidates", n, at, size)
			}
			at += 2 * n
		}
	}
}

// TestFindReadsNothingBefore looks for candidates with a table of any places, even later ones.
func TestFindReadsNothingBefore(t *testing.T) { forVectors(t, testFindAnyPlaces) }

func testFindAnyPlaces(t *testing.T, v vectors) {
	const pixels = 256
	src := guardtest.New(1 << 12).First(1 << 12)
	r := rand.New(rand.NewPCG(1, 2))
	var c candidates
	var table pairTable
	for range 2000 {
		pixelData(r, src)
		for i := range table {
			table[i] = uint16(r.Uint32())
		}
		at := r.IntN(len(src) - 2*pixels - 6)
		c.find(v, &table, src, at, pixels)
		for k := range pixels {
			if i := at + 2*k; c.found[k/64]>>(k%64)&1 != 0 && int(c.dists[k]) > i {
				t.Fatalf("a distance of %d at %d", c.dists[k], i)
			}
		}
	}
}

// TestVectorsTakeSameTokens compares the routines that select matches with the one in Go.
func TestVectorsTakeSameTokens(t *testing.T) { forVectors(t, testTake) }

func testTake(t *testing.T, v vectors) {
	memory := guardtest.New(12 << 10)
	r := rand.New(rand.NewPCG(4, 1))
	var c candidates
	var got, want [mostTokens]uint32
	for round := range 4000 {
		size := 100 + r.IntN(len(memory)-100)
		src := [][]byte{memory.First(size), memory.Last(size)}[round&1]
		pixelData(r, src)
		var table pairTable
		at, n, done := 0, 0, 0
		for from := at; from < size-matchGuard; {
			pixels := min(groupPixels, (size-matchGuard-from+1)/2)
			c.find(portable, &table, src, from, pixels)
			for k := 0; k < pixels; k += 64 {
				gotN, gotDone := c.take(v, &got, n, src, from+2*k, k/64, done, size)
				n, done = c.take(portable, &want, n, src, from+2*k, k/64, done, size)
				if gotN != n || gotDone != done || !slices.Equal(got[:n], want[:n]) {
					t.Fatalf("pixels from %d of %d on: other tokens", from+2*k, size)
				}
			}
			from += 2 * pixels
		}
	}
}

// TestRepeatsOfFirstPixelsTakeLittle encodes a tile of equal rows and one of zeros: the first
// matches refer to the beginning of the tile, and must not be lost.
func TestRepeatsOfFirstPixelsTakeLittle(t *testing.T) {
	const side, row = 64, 128
	e := NewEncoder(Options{Element: 2, Row: row, Predictor: 2})
	for kind, most := range map[string]int{"noise": row + 95, "zero": 35} {
		data := slices.Repeat(made(kind, row), side)
		stream := encodeBy(e, (*Encoder).pixels, data)
		check(t, stream, data)
		if len(stream) > most {
			t.Errorf("%s: %d bytes, at most %d are expected", kind, len(stream), most)
		}
	}
}

// TestInterpolatedPixelsTakeLess encodes a scene interpolated to a third of its pixel size. Longer
// matches than those of pixels must be chosen.
func TestInterpolatedPixelsTakeLess(t *testing.T) {
	const side, factor = 256, 3
	r := rand.New(rand.NewPCG(6, 4))
	coarse := make([][]int, side/factor+2)
	for y := range coarse {
		coarse[y] = make([]int, side/factor+2)
		for x := range coarse[y] {
			coarse[y][x] = 8000 + r.IntN(600)
		}
	}
	var data []byte
	for y := range side {
		before := 0
		for x := range side {
			above, below := coarse[y/factor], coarse[y/factor+1]
			i, u, v := x/factor, x%factor, y%factor
			row := func(c []int) int { return c[i]*(factor-u) + c[i+1]*u }
			value := (row(above)*(factor-v) + row(below)*v) / factor / factor
			data = binary.LittleEndian.AppendUint16(data, uint16(value-before))
			before = value
		}
	}
	e := NewEncoder(Options{Element: 2, Row: 2 * side, Predictor: 2})
	pixels := len(encodeBy(e, (*Encoder).pixels, data))
	stream := e.AppendZlib(nil, data)
	check(t, stream, data)
	if len(stream) > pixels*95/100 {
		t.Errorf("%d bytes, expected at most 95 %% of the %d by matches of pixels", len(stream), pixels)
	}
}

// TestVectorsWriteSameTokens compares the routines that write tokens with the one in Go, to memory
// whose neighbours can't be accessed.
func TestVectorsWriteSameTokens(t *testing.T) { forVectors(t, testWriteTokens) }

func testWriteTokens(t *testing.T, v vectors) {
	r := rand.New(rand.NewPCG(9, 9))
	src := made("skew", 3000)
	memory := guardtest.New(64 << 10)
	var c code
	for range 3000 {
		var tokens []uint32
		for range r.IntN(1 + r.IntN(500)) {
			switch r.IntN(6) {
			case 0:
				tokens = append(tokens, literal|uint32(r.IntN(256)))
			case 1, 2:
				tokens = append(tokens, twoLiterals(r.Uint64()))
			case 3, 4:
				tokens = append(tokens, distToken(1+uint32(r.IntN(1+r.IntN(window))))|
					(firstLength+uint32(r.IntN(maxMatch-minMatch+1))))
			case 5:
				n := 1 + r.IntN(200)
				tokens = append(tokens, literalRun|uint32(n), uint32(r.IntN(len(src)-n)))
			}
		}
		c.of(tokens, src, portable)
		if r.IntN(2) == 0 { // some words have the greatest length
			for s := range c.lits {
				c.lits[s] += 1 << max(0, 22-s/2)
			}
			for s := range c.dists {
				c.dists[s] += 1 << max(0, 20-s)
			}
		}
		c.build()
		written := func(v vectors, out []byte, held uint) []byte {
			c.vectors = v
			c.entries()
			w := bitWriter{out: out}
			w.add(1<<held-1, held)
			w.tokens(&c, tokens, src)
			w.align()
			return out[:w.at]
		}
		held := uint(r.IntN(8))
		want := written(portable, make([]byte, len(memory)), held)
		if got := written(v, memory.Last(len(want)+8), held); !slices.Equal(got, want) {
			t.Fatalf("%d tokens after %d bits: other bits", len(tokens), held)
		}
		out := memory.Last(r.IntN(len(want) + 8))
		if at, _, _, _ := v.tokens(&c, out, 0, 0, 0, tokens); at > len(out) {
			t.Fatalf("%d bytes written to %d", at, len(out))
		}
	}
}
