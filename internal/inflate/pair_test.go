package inflate

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"leat/internal/guardtest"
)

// The second stream of a pair and its target.
var otherSources, otherTargets = guardtest.New(4 << 20), guardtest.New(4 << 20)

// packedInto is a stream and the bytes that its target has.
type packedInto struct {
	src   []byte
	space int
}

// agreePair decodes two streams at once and compares each with what a Decoder gives: bytes, their
// number and the error. Both are in memory that ends, or begins, at what can't be accessed.
func agreePair(t testing.TB, p *Pair, d *Decoder, a, b packedInto) {
	t.Helper()
	for _, last := range []bool{true, false} {
		part := func(m guardtest.Memory, n int) []byte {
			if last {
				return m.Last(n)
			}
			return m.First(n)
		}
		srcA, dstA := part(sources, len(a.src)), part(targets, a.space)
		srcB, dstB := part(otherSources, len(b.src)), part(otherTargets, b.space)
		copy(srcA, a.src)
		copy(srcB, b.src)
		nA, errA, nB, errB := p.Both(dstA, srcA, dstB, srcB)
		for _, got := range []struct {
			in  packedInto
			dst []byte
			n   int
			err error
		}{{a, dstA, nA, errA}, {b, dstB, nB, errB}} {
			want := make([]byte, got.in.space)
			n, err := d.Zlib(want, got.in.src)
			if n != got.n || err != got.err || !bytes.Equal(want[:n], got.dst[:n]) {
				t.Fatalf("%d bytes, %v; alone %d bytes, %v", got.n, got.err, n, err)
			}
		}
	}
}

// pairs returns the Pair that chooses by itself, those that take all blocks or none as mixed, one
// that does both, and one without assembly.
func pairs() []*Pair {
	portable := new(Pair)
	portable.a.portable, portable.b.portable = true, true
	return []*Pair{
		new(Pair),
		{Decoder{always: true}, Decoder{always: true}},
		{Decoder{never: true}, Decoder{never: true}},
		{Decoder{always: true}, Decoder{never: true}},
		portable,
	}
}

func TestPairsGiveWhatDecodersGive(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var d Decoder
	var streams []packedInto
	for i, data := range samples(r) {
		if len(data) > 40000 && testing.Short() {
			continue
		}
		src := deflated(t, data, []int{-2, 0, 1, 6, 9}[i%5])
		for _, space := range []int{len(data), len(data) + 500, len(data) / 2} {
			streams = append(streams, packedInto{src, space})
		}
		if n := len(src); n > 10 {
			streams = append(streams, packedInto{src[:r.IntN(n)], len(data)})
			flipped := bytes.Clone(src)
			flipped[2+r.IntN(n-2)] ^= 1 << r.IntN(8)
			streams = append(streams, packedInto{flipped, len(data)})
		}
	}
	for _, p := range pairs() {
		for _, a := range streams {
			for range 6 {
				agreePair(t, p, &d, a, streams[r.IntN(len(streams))])
			}
		}
	}
}

// TestPairsOfTiles decodes blocks of many kinds, and matches at every distance.
func TestPairsOfTiles(t *testing.T) {
	side := 512
	if testing.Short() {
		side = 160
	}
	var d Decoder
	var streams []packedInto
	for _, raw := range [][]byte{scene(side, side), floats(side, side/2), classes(side, side),
		make([]byte, side*side)} {
		for _, level := range []int{1, 6, 9} {
			streams = append(streams, packedInto{deflated(t, raw, level), len(raw)})
		}
	}
	for _, p := range pairs() {
		for i, a := range streams {
			for _, b := range streams[i:] {
				agreePair(t, p, &d, a, b)
			}
		}
	}
}

// TestPairsCutAnywhere cuts one of two streams at every byte, or in short tests at every fifth.
func TestPairsCutAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	var d Decoder
	p := pairs()[1]
	all := samples(r)
	whole := packedInto{deflated(t, all[len(all)-2], 9), len(all[len(all)-2])}
	for i, data := range all {
		if len(data) != 1000 {
			continue
		}
		src := deflated(t, data, []int{1, 9, 6}[i%3])
		step := 1
		if testing.Short() {
			step = 5
		}
		for n := 0; n < len(src); n += step {
			if n%2 == 0 {
				agreePair(t, p, &d, packedInto{src[:n], len(data)}, whole)
			} else {
				agreePair(t, p, &d, whole, packedInto{src[:n], len(data)})
			}
		}
	}
}

// TestPairsWhereEitherSideEnds cuts sources and targets of streams whose matches take the most
// bits, or give the most bytes: the loop counts the steps that can't reach an end, by both.
func TestPairsWhereEitherSideEnds(t *testing.T) {
	lens := func(n int, bits map[int]int) code {
		list := make([]int, n)
		for s, l := range bits {
			list[s] = l
		}
		return makeCode(list...)
	}
	distant, long := map[int]int{28: 15, 29: 15}, map[int]int{endOfBlock: 14, 284: 15, 285: 15}
	for i := range 14 {
		distant[i] = i + 1
	}
	for i := range 13 {
		long[i] = i + 1
	}
	most := 300
	if testing.Short() {
		most = 60
	}
	var d Decoder
	for name, c := range map[string]struct {
		lit, dist code
		back      int
	}{
		"bits":  {lens(286, long), lens(30, distant), 32000},
		"bytes": {lens(286, map[int]int{0: 1, endOfBlock: 2, 285: 2}), single, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var w writer
			w.stored(0, make([]byte, 32768))
			w.dynamic(1, c.lit, c.dist)
			begin := len(w.raw)
			for i := range 300 {
				if c.back == 1 { // one word of a literal and a match
					w.literal(c.lit, 0)
				}
				w.match(c.lit, c.dist, 258-i%2*(c.back/32000), c.back)
			}
			w.word(c.lit, endOfBlock)
			whole := packedInto{framed(w.raw, w.data), len(w.data)}
			p := pairs()[1]
			for n := range most {
				for _, cut := range []packedInto{
					{whole.src[:min(2+begin+8*n, len(whole.src))], whole.space},
					{whole.src[:min(2+begin+n, len(whole.src))], whole.space},
					{whole.src, 32768 + 1 + 258*n},
					{whole.src, 32768 + n},
				} {
					agreePair(t, p, &d, cut, whole)
					agreePair(t, p, &d, whole, cut)
				}
			}
		})
	}
}

func FuzzPair(f *testing.F) {
	r := rand.New(rand.NewPCG(15, 16))
	all := samples(r)
	for i, data := range all {
		other := all[r.IntN(len(all))]
		if len(data) <= 5000 && len(other) <= 5000 {
			f.Add(deflated(f, data, []int{-2, 0, 1, 9}[i%4]), len(data), deflated(f, other, 9), len(other))
		}
	}
	f.Fuzz(func(t *testing.T, a []byte, spaceA int, b []byte, spaceB int) {
		if min(spaceA, spaceB) < 0 || max(spaceA, spaceB) > 1<<17 || max(len(a), len(b)) > 1<<20 {
			return
		}
		var d Decoder
		for _, p := range pairs() {
			agreePair(t, p, &d, packedInto{a, spaceA}, packedInto{b, spaceB})
			// Without a header and a sum that are right, few inputs reach the symbols.
			agreePair(t, p, &d, packedInto{framed(a, nil), spaceA}, packedInto{framed(b, nil), spaceB})
		}
	})
}
