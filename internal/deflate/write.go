package deflate

import "encoding/binary"

// code holds the words of one block.
type code struct {
	counts
	lens  [litSymbols + distSymbols]uint8
	hlit  int
	hdist int

	metaCounts [metaSymbols]uint32
	metaLens   [metaSymbols]uint8
	metas      []uint16 // symbols, extra bits from bit 8 on
	hmeta      int

	// Entries of tokens: by their first symbol, whose extra bits are part of the word; by their
	// second, with space for the extra bits above the word. Bits 6 to 11 say how far these are
	// shifted to the left.
	first, second [512]uint64
	words         [litSymbols]uint64
	huffman       huffman

	vectors  vectors // count and write symbols
	literals literalTable
}

// literalTable holds the words of literals for writeAVX512: their lengths, their first eight bits,
// and the others.
type literalTable struct{ lengths, low, high [256]uint8 }

// build computes the lengths of the words for the counts. It returns the number of bits of the
// block after its header, and that of the header.
func (c *code) build() (body, head int) {
	c.huffman.lengths(c.lens[:litSymbols], c.lits[:], litLimit)
	c.hlit = litSymbols
	for c.lens[c.hlit-1] == 0 {
		c.hlit--
	}
	dists := c.lens[c.hlit:][:distSymbols]
	c.huffman.lengths(dists, c.dists[:], distLimit)
	c.hdist = distSymbols
	for dists[c.hdist-1] == 0 {
		c.hdist--
	}
	bits := 0
	for s, n := range c.lits[:c.hlit] {
		k := int(c.lens[s])
		if s > endOfBlock {
			k += lengthExtraBits(s - 257)
		}
		bits += int(n) * k
	}
	for s, n := range c.dists[:c.hdist] {
		bits += int(n) * (int(dists[s]) + distExtraBits(s))
	}
	return bits, c.describe()
}

var metaOrder = [metaSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// describe encodes the lengths of the words and returns the number of bits of the block's header.
func (c *code) describe() int {
	lens := c.lens[:c.hlit+c.hdist]
	c.metas = c.metas[:0]
	clear(c.metaCounts[:])
	add := func(symbol, extra int) {
		c.metas = append(c.metas, uint16(extra<<8|symbol))
		c.metaCounts[symbol]++
	}
	for i := 0; i < len(lens); {
		l := lens[i]
		n := 1
		for i+n < len(lens) && lens[i+n] == l {
			n++
		}
		i += n
		if l != 0 {
			add(int(l), 0)
			n--
		}
		for n > 0 {
			switch {
			case l == 0 && n >= 11:
				k := min(n, 138)
				add(18, k-11)
				n -= k
			case l == 0 && n >= 3:
				add(17, n-3)
				n = 0
			case l != 0 && n >= 3:
				k := min(n, 6)
				add(16, k-3)
				n -= k
			default:
				add(int(l), 0)
				n--
			}
		}
	}
	c.huffman.lengths(c.metaLens[:], c.metaCounts[:], metaLimit)
	c.hmeta = metaSymbols
	for c.metaLens[metaOrder[c.hmeta-1]] == 0 {
		c.hmeta--
	}
	bits := 3 + 5 + 5 + 4 + 3*c.hmeta
	for s, n := range c.metaCounts {
		bits += int(n) * (int(c.metaLens[s]) + metaExtraBits(s))
	}
	return bits
}

func metaExtraBits(s int) int {
	switch s {
	case 16:
		return 2
	case 17:
		return 3
	case 18:
		return 7
	}
	return 0
}

// entries makes the entries of tokens.
func (c *code) entries() {
	words(c.words[:c.hlit], c.lens[:c.hlit])
	copy(c.first[:256], c.words[:])
	copy(c.second[:256], c.words[:])
	clear(c.words[c.hlit:])
	for k, s := range lengthSymbols {
		e := c.words[257+int(s)]
		x := uint64(lengthExtras[k])
		l, n := e&63, x&63
		// The extra bits come above those of the word.
		c.first[firstLength+k] = (e&^63)>>n | x>>8<<(64-n&63) | (l + n)
	}
	words(c.second[firstDist:], c.lens[c.hlit:c.hlit+c.hdist])
	for s := range c.hdist {
		if e := c.second[firstDist+s]; e != 0 {
			n := uint64(distExtraBits(s))
			c.second[firstDist+s] = (e&^63)>>n | -n&63<<6 | (e+n)&63
		}
	}
	c.second[none] = 0
	if c.vectors == avx512 {
		for s, e := range c.words[:256] {
			w := e >> (-e & 63)
			c.literals.lengths[s], c.literals.low[s], c.literals.high[s] = uint8(e&63), uint8(w), uint8(w>>8)
		}
	}
}

// bitWriter writes bits. Its caller provides the memory: seven bytes more than the bits need. The
// highest n bits of acc are still to be written; between calls n is below 8.
type bitWriter struct {
	out []byte
	at  int
	acc uint64
	n   uint64
}

// add writes k bits, at most 32.
func (w *bitWriter) add(v uint64, k uint) {
	if k == 0 {
		return
	}
	w.acc = w.acc>>k | v<<(64-k)
	w.n += uint64(k)
	w.flush()
}

// word writes the word of an entry.
func (w *bitWriter) word(e uint64) {
	k := uint(e & 63)
	w.add(e>>(64-k), k)
}

func (w *bitWriter) flush() {
	store(w.out, w.at, w.acc>>(-w.n&63))
	w.at += int(w.n & 63 >> 3)
	w.n &= 7
}

// align fills up the last byte.
func (w *bitWriter) align() {
	w.add(0, uint(-w.n&7))
}

// header writes the header of a dynamic block.
func (w *bitWriter) header(c *code, last bool) {
	head := uint64(2 << 1)
	if last {
		head |= 1
	}
	w.add(head|uint64(c.hlit-257)<<3|uint64(c.hdist-1)<<8|uint64(c.hmeta-4)<<13, 17)
	for _, s := range metaOrder[:c.hmeta] {
		w.add(uint64(c.metaLens[s]), 3)
	}
	var entries [metaSymbols]uint64
	words(entries[:], c.metaLens[:])
	for _, m := range c.metas {
		w.word(entries[m&255])
		w.add(uint64(m>>8), uint(metaExtraBits(int(m&255))))
	}
}

// tokens writes tokens of src. The two words of a match with their extra bits (13+5 and 12+13), and
// what is left of a byte, are at most 50 bits.
func (w *bitWriter) tokens(c *code, tokens []uint32, src []byte) {
	out, at, acc, n := w.out, w.at, w.acc, w.n
	first, second := &c.first, &c.second
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t >= literalRun {
			i++
			p := src[tokens[i]:][:t&^literalRun]
			if len(p) >= vector {
				at, acc, n, p = c.vectors.write(c, out, at, acc, n, p)
			}
			at, acc, n = literals(out, at, acc, n, first, p)
			continue
		}
		if c.vectors != portable {
			k := 0
			if at, acc, n, k = c.vectors.tokens(c, out, at, acc, n, tokens[i:]); k > 0 {
				i += k - 1
				continue
			}
		}
		e := first[t&symbolMask]
		f := second[t>>secondAt&symbolMask]
		extra := uint64(t>>extraAt) << (f >> 6 & 63)
		k := (e + f) & 63
		acc = acc>>k | e>>(f&63) | f&^4095 | extra
		n += k
		store(out, at, acc>>(-n&63))
		at += int(n >> 3)
		n &= 7
	}
	w.at, w.acc, w.n = at, acc, n
}

// literals writes literals: four words, of at most 13 bits, per flush. The lowest bits of an entry,
// its length, get into acc with the word, but below the 59 bits that are used at most.
func literals(out []byte, at int, acc, n uint64, first *[512]uint64, p []byte) (int, uint64, uint64) {
	for ; len(p) >= 8; p = p[8:] {
		v := binary.LittleEndian.Uint64(p)
		e0, e1, e2, e3 := first[v&255], first[v>>8&255], first[v>>16&255], first[v>>24&255]
		a, k := e0>>(e1&63)|e1, e0+e1
		b, l := e2>>(e3&63)|e3, e2+e3
		acc = acc>>(k&63) | a
		acc = acc>>(l&63) | b
		n += k + l
		store(out, at, acc>>(-n&63))
		at += int(n & 63 >> 3)
		n &= 7
		e0, e1, e2, e3 = first[v>>32&255], first[v>>40&255], first[v>>48&255], first[v>>56]
		a, k = e0>>(e1&63)|e1, e0+e1
		b, l = e2>>(e3&63)|e3, e2+e3
		acc = acc>>(k&63) | a
		acc = acc>>(l&63) | b
		n += k + l
		store(out, at, acc>>(-n&63))
		at += int(n & 63 >> 3)
		n &= 7
	}
	for _, b := range p {
		e := first[b]
		acc = acc>>(e&63) | e
		n += e
		store(out, at, acc>>(-n&63))
		at += int(n & 63 >> 3)
		n &= 7
	}
	return at, acc, n
}
