package inflate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// writer makes deflate data by hand, and the bytes that they stand for.
type writer struct {
	raw, data []byte
	n         uint // bits written
}

// bits writes the n lowest bits of v, the lowest first.
func (w *writer) bits(v, n int) {
	for i := range n {
		if w.n%8 == 0 {
			w.raw = append(w.raw, 0)
		}
		w.raw[len(w.raw)-1] |= byte(v>>i&1) << (w.n % 8)
		w.n++
	}
}

// code is a Huffman code: of each symbol the bits of its word, and the word.
type code struct{ lens, words []int }

func makeCode(lens ...int) code {
	c := code{lens, make([]int, len(lens))}
	next := 0
	for l := 1; l <= 15; l++ {
		for s := range lens {
			if lens[s] == l {
				c.words[s] = next
				next++
			}
		}
		next <<= 1
	}
	return c
}

func (w *writer) word(c code, symbol int) {
	for i := c.lens[symbol] - 1; i >= 0; i-- {
		w.bits(c.words[symbol]>>i, 1)
	}
}

func (w *writer) stored(last int, p []byte) {
	w.bits(last, 3)
	w.n = uint(len(w.raw)) * 8
	w.bits(len(p), 16)
	w.bits(^len(p), 16)
	w.raw, w.data = append(w.raw, p...), append(w.data, p...)
	w.n += uint(len(p)) * 8
}

// metaCode is a code for the lengths of words: 0 to 15 in 5 bits, the repetitions 16 to 18 in 2 and
// 3.
var metaCode = makeCode(5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 2, 3, 3)

func (w *writer) dynamicHead(last, lits, dists int) {
	w.bits(last|2<<1, 3)
	w.bits(lits-257, 5)
	w.bits(dists-1, 5)
	w.bits(19-4, 4)
	for _, s := range metaOrder {
		w.bits(metaCode.lens[s], 3)
	}
}

func (w *writer) dynamic(last int, lit, dist code) {
	w.dynamicHead(last, len(lit.lens), len(dist.lens))
	for _, l := range append(append([]int{}, lit.lens...), dist.lens...) {
		w.word(metaCode, l)
	}
}

func (w *writer) literal(lit code, c byte) {
	w.word(lit, int(c))
	w.data = append(w.data, c)
}

// symbolOf finds the symbol of a length or a distance: the last whose shortest one is not beyond v.
func symbolOf(v, first, count int, shortest func(i int) (base, extra int)) (symbol, rest, extra int) {
	for i := count - 1; ; i-- {
		if base, extra := shortest(i); v >= base && v < base+1<<extra {
			return first + i, v - base, extra
		}
	}
}

func (w *writer) match(lit, dist code, length, back int) {
	s, rest, extra := symbolOf(length, 257, 29, func(i int) (int, int) {
		base := []int{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
			163, 195, 227, 258}
		return base[i], []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}[i]
	})
	w.word(lit, s)
	w.bits(rest, extra)
	s, rest, extra = symbolOf(back, 0, 30, func(i int) (int, int) {
		return []int{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049,
			3073, 4097, 6145, 8193,
			12289, 16385, 24577}[i], max(0, i/2-1)
	})
	w.word(dist, s)
	w.bits(rest, extra)
	for range length {
		if at := len(w.data) - back; at >= 0 {
			w.data = append(w.data, w.data[at])
		} else {
			w.data = append(w.data, 0)
		}
	}
}

// taken fails unless the stream decodes to what it was made from, with spaces of every kind.
func (w *writer) taken(t testing.TB, d *Decoder) {
	t.Helper()
	src, dst := framed(w.raw, w.data), make([]byte, len(w.data))
	if n, err := d.Zlib(dst, src); err != nil || !bytes.Equal(dst[:n], w.data) {
		t.Fatalf("%d of %d bytes: %v", n, len(w.data), err)
	}
	for _, space := range []int{0, len(w.data) / 2, len(w.data) - 1, len(w.data), len(w.data) + 1, len(w.data) + 400} {
		agree(t, d, src, max(space, 0))
	}
}

func (w *writer) refused(t testing.TB, d *Decoder, what string, want error) {
	t.Helper()
	for _, more := range []int{0, 5, 500} { // as much as the careful loop reads, and the fast one
		src := append(framed(w.raw, w.data), make([]byte, more)...)
		if n, err := d.Zlib(make([]byte, len(w.data)+900), src); !errors.Is(err,
			want) && !(more < 500 && errors.Is(err, ErrTruncated)) {
			t.Errorf("%s: %d bytes, %v; not %v", what, n, err, want)
		}
		agree(t, d, src, len(w.data)+900)
	}
}

var (
	fixedLit, fixedDist = func() (a, b code) {
		var lens [288 + 32]int
		for i, l := range fixedLens {
			lens[i] = int(l)
		}
		return makeCode(lens[:288]...), makeCode(lens[288:]...)
	}()
	single = makeCode(1)
)

// flat is a code of n words that has no gaps, all of nearly the same length.
func flat(n int) code {
	lens, bits := make([]int, n), 0
	for 1<<bits < n {
		bits++
	}
	for s := range lens {
		lens[s] = bits
		if s < 1<<bits-n {
			lens[s]--
		}
	}
	return makeCode(lens...)
}

func TestStoredBlocksAtAnyBit(t *testing.T) {
	var d Decoder
	r := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 1<<16-1)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for n := range 700 {
		var w writer
		for range n % 8 { // 10 bits each
			w.bits(1<<1, 3)
			w.word(fixedLit, endOfBlock)
		}
		w.stored(0, noise[:n])
		w.stored(0, nil)
		w.bits(1<<1, 3)
		for i := range n % 50 {
			w.literal(fixedLit, byte(i*37))
		}
		w.word(fixedLit, endOfBlock)
		w.stored(1, noise[n:2*n])
		w.taken(t, &d)
	}
	for _, n := range []int{32768, 65534, 65535} {
		var w writer
		w.stored(0, noise[:n])
		w.stored(1, noise[:n])
		w.taken(t, &d)
	}
}

func TestMatchesOfAnyLengthAndDistance(t *testing.T) {
	var d Decoder
	r := rand.New(rand.NewPCG(2, 2))
	start := make([]byte, 32768)
	for i := range start {
		start[i] = byte(r.Uint32())
	}
	times := 2
	if os.Getenv("LEAT_TEST_DIST") != "" { // make test-all
		times = 12
	}
	// Each one where the target ends, so in the careful loop, and behind it enough for the fast
	// one.
	for _, behind := range []int{0, 1, 400} {
		for back := 1; back <= 32768; back++ {
			length := 3 + r.IntN(256)
			if back > 40 {
				back = min(32768, back+r.IntN(back))
			}
			for range times {
				var w writer
				w.stored(0, start[:min(32768, back+r.IntN(20))])
				w.bits(1|1<<1, 3)
				w.match(fixedLit, fixedDist, length, back)
				for i := range behind {
					w.literal(fixedLit, byte(i))
				}
				w.word(fixedLit, endOfBlock)
				w.taken(t, &d)
				if length = 3 + r.IntN(256); r.IntN(4) == 0 {
					length = 258
				}
			}
		}
	}
	for back := 1; back <= 20; back++ {
		for length := 3; length <= 258; length++ {
			for _, behind := range []int{0, 300} {
				var w writer
				w.bits(1|1<<1, 3)
				for i := range back {
					w.literal(fixedLit, byte(i+1))
				}
				w.match(fixedLit, fixedDist, length, back)
				for i := range behind {
					w.literal(fixedLit, byte(i))
				}
				w.word(fixedLit, endOfBlock)
				w.taken(t, &d)
			}
		}
	}
}

func TestCodesOfManyShapes(t *testing.T) {
	var d Decoder
	r := rand.New(rand.NewPCG(3, 3))
	for range 600 {
		// Codes without gaps, made by splitting words: sometimes evenly, sometimes the longest, up
		// to 15 bits.
		grow := func(n int) code {
			lens, deep := []int{0}, r.IntN(4)
			for len(lens) < n {
				at := r.IntN(len(lens))
				for range deep {
					if i := r.IntN(len(lens)); lens[i] > lens[at] && lens[i] < 15 {
						at = i
					}
				}
				if lens[at] < 15 {
					lens[at]++
					lens = append(lens, lens[at])
				}
			}
			if n == 1 {
				lens[0] = 1
			}
			r.Shuffle(n, func(i, j int) { lens[i], lens[j] = lens[j], lens[i] })
			return makeCode(lens...)
		}
		lit, dist := grow(257+r.IntN(30)), grow(1+r.IntN(30))
		var w writer
		w.dynamic(1, lit, dist)
		for range 1 + r.IntN(1500) {
			if len(lit.lens) == 257 || len(w.data) == 0 || r.IntN(3) > 0 {
				w.literal(lit, byte(r.Uint32()))
				continue
			}
			length := 3 + min(r.IntN(8), len(lit.lens)-258)
			if len(lit.lens) == 286 {
				length = 3 + r.IntN(256)
			}
			most := 32768
			if k := len(dist.lens); k < 30 {
				most = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
					2048, 3072, 4096, 6144, 8192,
					12288, 16384, 24576}[k-1]
			}
			w.match(lit, dist, length, 1+r.IntN(min(len(w.data), most)))
		}
		w.word(lit, endOfBlock)
		w.taken(t, &d)
	}
	for n := 258; n <= 286; n++ { // 15 bits: words of 1, 2, 3 … bits for the symbols around the end of the block
		for _, first := range []int{0, n - 16} {
			lens := make([]int, n)
			for i := range 16 {
				lens[(first+i)%n] = min(i+1, 15)
			}
			if lens[endOfBlock] == 0 {
				lens[endOfBlock], lens[first+15] = 15, 0
			}
			lit, dist := makeCode(lens...), makeCode(15, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
			var w writer
			w.bits(1<<1, 3)
			for range 300 {
				w.literal(fixedLit, byte(r.Uint32()))
			}
			w.word(fixedLit, endOfBlock)
			w.dynamic(1, lit, dist)
			for range 900 {
				s := first + r.IntN(16)
				switch {
				case s < 256 && lens[s] > 0:
					w.literal(lit, byte(s))
				case s > 256 && s < 265 && lens[s] > 0:
					w.match(lit, dist, s-254, 1+r.IntN(256))
				}
			}
			w.word(lit, endOfBlock)
			w.taken(t, &d)
		}
	}
}

func TestInvalidCodesAreRefused(t *testing.T) {
	var d Decoder
	block := func(lit, dist code, body func(w *writer)) *writer {
		w := &writer{}
		w.bits(1<<1, 3)
		for i := range 300 {
			w.literal(fixedLit, byte(i))
		}
		w.word(fixedLit, endOfBlock)
		w.dynamic(1, lit, dist)
		if body != nil {
			body(w)
		}
		return w
	}
	lit := flat(286)
	end := func(w *writer) { w.word(lit, endOfBlock) }
	change := func(c code, symbol, by int) code {
		lens := append([]int{}, c.lens...)
		lens[symbol] += by
		return makeCode(lens...)
	}
	only := func(n, symbol, bits int) code {
		lens := make([]int, n)
		lens[symbol] = bits
		return makeCode(lens...)
	}

	block(lit, single, end).taken(t, &d)
	block(lit, makeCode(0), end).taken(t, &d)
	block(lit, only(30, 29, 1), end).taken(t, &d)
	block(lit, single, func(w *writer) { w.match(lit, single, 258, 1); end(w) }).taken(t, &d)
	block(only(257, endOfBlock, 1), makeCode(0), func(w *writer) { w.bits(0, 1) }).taken(t, &d)

	block(lit, single, func(w *writer) { w.word(lit, 257); w.bits(1, 1); end(w) }).refused(t, &d,
		"the other bit of a single distance", ErrDamaged)
	block(lit, makeCode(0), func(w *writer) { w.word(lit, 257); w.bits(0, 1); end(w) }).refused(t, &d,
		"a match without distances", ErrDamaged)
	block(only(257, endOfBlock, 1), single, func(w *writer) { w.bits(1, 1) }).refused(t, &d, "the other bit of the end",
		ErrDamaged)
	block(lit, makeCode(2), end).refused(t, &d, "a single distance of two bits", ErrDamaged)
	block(lit, makeCode(1, 1, 1), end).refused(t, &d, "three distances of one bit", ErrDamaged)
	block(lit, makeCode(2, 2, 2), end).refused(t, &d, "three distances of two bits", ErrDamaged)
	block(change(lit, 7, -1), single, end).refused(t, &d, "literals with too many words", ErrDamaged)
	block(change(lit, 7, 1), single, end).refused(t, &d, "literals with too few words", ErrDamaged)
	block(only(257, 0, 1), single, nil).refused(t, &d, "no end of block", ErrDamaged)
	block(only(257, endOfBlock, 2), single, nil).refused(t, &d, "a single word of two bits", ErrDamaged)
	block(flat(287), single, nil).refused(t, &d, "287 literals and lengths", ErrDamaged)
	block(lit, flat(31), end).refused(t, &d, "31 distances", ErrDamaged)

	fixed := func(body func(w *writer)) *writer {
		w := &writer{}
		w.bits(1|1<<1, 3)
		body(w)
		return w
	}
	for _, s := range []int{286, 287} {
		fixed(func(w *writer) { w.word(fixedLit, s) }).refused(t, &d, fmt.Sprintf("length symbol %d", s), ErrDamaged)
	}
	for _, s := range []int{30, 31} {
		fixed(func(w *writer) { w.literal(fixedLit, 1); w.word(fixedLit, 257); w.word(fixedDist, s) }).refused(t, &d,
			fmt.Sprintf("distance symbol %d", s), ErrDamaged)
	}
	for _, n := range []int{0, 1, 7, 8, 300, 32767} { // one further back than there is anything
		fixed(func(w *writer) {
			for i := range n {
				w.literal(fixedLit, byte(i))
			}
			w.match(fixedLit, fixedDist, 3, n+1)
		}).refused(t, &d, fmt.Sprintf("a distance of %d after %d bytes", n+1, n), ErrDamaged)
	}

	for _, c := range []struct {
		name string
		ops  [][3]int // symbol, value and number of the bits after it
	}{
		{"a repetition of nothing", [][3]int{{16, 0, 2}}},
		{"a repetition beyond the end", [][3]int{{18, 127, 7}, {18, 127, 7}}},
		{"a repetition one beyond the end", [][3]int{{18, 127, 7}, {18, 110, 7}}}, // 138 + 121 = 257 + 1 + 1
	} {
		w := &writer{}
		w.dynamicHead(1, 257, 1)
		for _, op := range c.ops {
			w.word(metaCode, op[0])
			w.bits(op[1], op[2])
		}
		w.refused(t, &d, c.name, ErrDamaged)
	}
	for bits := range 8 { // the code of the lengths' words itself
		w := &writer{}
		w.bits(1|2<<1, 3)
		w.bits(0, 5+5+4)
		for range 4 {
			w.bits(bits, 3)
		}
		if bits != 2 {
			w.refused(t, &d, fmt.Sprintf("four words of %d bits for the lengths", bits), ErrDamaged)
		}
	}
}

// TestTilesOfRealFiles also takes the files that LEAT_TIFF names.
func TestTilesOfRealFiles(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		} else if root == filepath.Dir(root) {
			t.Fatal("no go.mod above the test")
		}
	}
	names := filepath.SplitList(os.Getenv("LEAT_TIFF"))
	if err := filepath.WalkDir(filepath.Join(root, "../shared/data"),
		func(path string, _ fs.DirEntry, err error) error {
			if filepath.Ext(path) == ".tif" {
				names = append(names, path)
			}
			return err
		}); errors.Is(err, fs.ErrNotExist) && len(names) == 0 {
		t.Skip("no real scenes: ../shared/data is absent")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var d Decoder
	tiles := 0
	for _, name := range names {
		for i, tile := range tiffTiles(t, name) {
			dst := make([]byte, len(tile.raw))
			if n, err := d.Zlib(dst, tile.packed); err != nil || !bytes.Equal(dst[:n], tile.raw) {
				t.Errorf("%s, tile %d: %d of %d bytes, %v", name, i, n, len(tile.raw), err)
			}
			tiles++
		}
	}
	if tiles == 0 {
		t.Error("no tiles were found")
	}
	t.Logf("%d tiles of %d files", tiles, len(names))
}

// TestMatchesWhereTheFastLoopEnds decodes matches, alone and joined with the literal before, where
// the loops may just store one, and a byte before and behind that.
func TestMatchesWhereTheFastLoopEnds(t *testing.T) {
	var d Decoder
	lens := make([]int, 286)
	for s := 254; s < len(lens); s++ { // 32 words of 5 bits, so short that two are joined
		lens[s] = 5
	}
	lit, dist := makeCode(lens...), flat(30)
	for _, back := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 63, 64, 400} {
		start := make([]byte, back)
		for i := range start {
			start[i] = byte(i + 1)
		}
		for length := 3; length <= 258; length++ {
			if testing.Short() && length%16 > 3 {
				continue
			}
			for literals := range 2 {
				var w writer
				w.stored(0, start)
				w.dynamic(1, lit, dist)
				for range literals {
					w.literal(lit, 255)
				}
				w.match(lit, dist, length, back)
				w.word(lit, endOfBlock)
				src := append(framed(w.raw, w.data), make([]byte, 2*inSpace)...)
				for space := back + outSpace - 1; space <= back+outSpace+1; space++ {
					for _, portable := range []bool{false, true} {
						d.portable = portable
						agreeWith(t, &d, src, space, w.data, nil)
					}
				}
			}
		}
	}
}
