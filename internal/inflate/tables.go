package inflate

import "math/bits"

// A table is looked up with the next bits of the stream, the first one lowest. Its entry says what
// they stand for and how many they are; the same entry stands wherever those bits do. Words longer
// than the table's bits go on in a table of their own behind it, which the entry of their first
// bits leads to.
//
// An entry, from the lowest bit:
//
//	all        0-5  bits to drop, those of the words and the extra bits after them
//	literals   6 set; 14-15 how many, 1 or 2; 16-23 and 24-31 the bytes
//	lengths    8-11 bits of the words alone; 13 set if extra bits follow; 14 set if a literal
//	           comes first, with 16-23 the byte; 24-31 the shortest length, less 3
//	distances  8-11 bits of the word alone; 16-30 the shortest distance
//	special    7 set; 15 set for the end of the block; 14 set for a second table: 16-28 its index,
//	           29-31 the number of its index bits; neither if no word begins with these bits
//
// Shifts use the six lowest bits of an entry as they are, and for distances those from 8 on; masks
// use the eight lowest.
const (
	dropMask  = 63
	literal   = 1 << 6 // one or two, and no length
	special   = 1 << 7
	hasExtra  = 1 << 13 // a length with extra bits
	further   = 1 << furtherAt
	blockEnds = 1 << endsAt

	wordAt       = 8
	wordMask     = 15
	literalsAt   = 14
	literalsMask = 3
	byteAt       = 16 // the first of the literals
	lengthAt     = 24
	shortest     = 3 // bytes of a match
	distAt       = 16
	furtherAt    = 14 // special
	endsAt       = 15
	tableAt      = 16
	tableMask    = 1<<13 - 1
	indexAt      = 29

	endOfBlock = 256
	longest    = 15 // bits of a word
)

// Bits of the tables, and the numbers of their entries. A second-level table of 2^k entries holds
// at least k+1 words, for a code has no gaps; so the 286 words of lengths and literals fill at most
// 286/4 further tables of 8, and the 30 of distances 30/8 of 128. The sizes are powers of two, so
// that an index needs no check.
//
// More bits let more words be joined: scenes decode 1.2 times as fast with manyBits as with
// fewBits. But masks and class maps decode up to 1.4 times as fast with fewBits, since few words
// describe many bytes, and making the table takes much of the time.
const (
	manyBits = 12
	fewBits  = 10
	fewWords = 96 // most words of a code whose table has fewBits
	litSize  = 8192
	distBits = 8
	distSize = 1024
	metaBits = 7
)

var (
	litSymbols  = makeLitSymbols()
	distSymbols = makeDistSymbols()
	fixedLens   = makeFixedLens()
)

// makeLitSymbols gives the entries of literals and lengths, less the bits of their words.
func makeLitSymbols() (e [288]uint32) {
	for s := range 256 {
		e[s] = uint32(s)<<byteAt | literal | 1<<literalsAt
	}
	e[endOfBlock] = special | blockEnds
	length := uint32(shortest)
	for s := 257; s < 285; s++ {
		extra := uint32(max(s-261, 0) / 4)
		e[s] = extra | (length-shortest)<<lengthAt
		if extra > 0 {
			e[s] |= hasExtra
		}
		length += 1 << extra
	}
	e[285] = (258 - shortest) << lengthAt
	e[286], e[287] = special, special
	return e
}

// makeDistSymbols does so for distances.
func makeDistSymbols() (e [32]uint32) {
	dist := uint32(1)
	for s := range 30 {
		extra := uint32(max(s-2, 0) / 2)
		e[s] = extra | dist<<distAt
		dist += 1 << extra
	}
	e[30], e[31] = special, special
	return e
}

// makeFixedLens gives the lengths of the fixed codes' words, the distances' after those of the 288
// others.
func makeFixedLens() (lens [288 + 32]uint8) {
	for s := range lens {
		switch {
		case s < 144:
			lens[s] = 8
		case s < 256:
			lens[s] = 9
		case s < 280:
			lens[s] = 7
		case s < 288:
			lens[s] = 8
		default:
			lens[s] = 5
		}
	}
	return lens
}

// order has the symbols of a code by the length of their words, then by number: the order of the
// words.
type order struct {
	symbols [288]uint16
	words   [288]uint16 // those that fit in the table's bits
	count   [longest + 1]int
	used    int  // symbols that have words
	most    uint // bits of the longest word
	free    int  // words of longest bits that the code could still have
}

// sort sorts the symbols of the code whose words have the lengths lens. It refuses lengths that no
// code has: too many words, or too few, except a single one of one bit or none at all.
func (o *order) sort(lens []uint8) bool {
	var next [longest + 1]int
	o.count = [longest + 1]int{}
	count := &o.count
	for s := 0; s < len(lens); s += 8 {
		v := eight(lens, s)
		for ; v != 0; v >>= 8 {
			count[v&longest]++
		}
	}
	count[0] = 0 // only some of the unused symbols were counted
	o.used, o.most, o.free = 0, 0, 1
	for l := 1; l <= longest; l++ {
		next[l] = o.used
		if count[l] > 0 {
			o.used, o.most = o.used+count[l], uint(l)
		}
		if o.free = o.free<<1 - count[l]; o.free < 0 {
			return false
		}
	}
	if o.free > 0 && o.used != count[1] {
		return false
	}
	for s := 0; s < len(lens); s += 8 {
		for v, i := eight(lens, s), s; v != 0; v, i = v>>8, i+1 {
			if l := v & longest; l != 0 {
				o.symbols[next[l]] = uint16(i)
				next[l]++
			}
		}
	}
	return true
}

// eight gives the lengths from lens[s] on, eight at most, the first one lowest.
func eight(lens []uint8, s int) (v uint64) {
	if s+8 <= len(lens) {
		return load(lens, s)
	}
	for i, l := range lens[s:] {
		v |= uint64(l) << (8 * i)
	}
	return v
}

// build makes the table of the code in o, with primary bits and the entries of symbols. It leaves
// the words in o.
func build(table []uint32, primary uint, symbols []uint32, o *order) {
	count, sorted := &o.count, &o.symbols
	if o.free > 0 {
		for i := range table[:1<<primary] {
			table[i] = special | 1
		}
	}

	// The table is made for words of one bit, then doubled for each bit more.
	word, at := uint32(0), 0
	for l := uint(1); l <= primary; l++ {
		for i, s := range sorted[at : at+count[l]] {
			o.words[at+i] = uint16(word)
			table[word] = entry(symbols[s], l)
			word = nextWord(word, l)
		}
		at += count[l]
		if l < primary {
			copy(table[1<<l:2<<l], table[:1<<l])
		}
	}
	start, size, prefix := 0, 1<<primary, ^uint32(0)
	for l := primary + 1; l <= longest; l++ {
		for left := count[l]; left > 0; left-- {
			if low := word & (1<<primary - 1); low != prefix {
				prefix = low
				start += size
				k := l - primary
				for free := 1<<k - left; free > 0; {
					k++
					free = free<<1 - count[primary+k]
				}
				size = 1 << k
				table[low] = special | further | uint32(start)<<tableAt | uint32(k)<<indexAt
			}
			e := entry(symbols[sorted[at]], l)
			for i := int(word >> primary); i < size; i += 1 << (l - primary) {
				table[start+i] = e
			}
			word = nextWord(word, l)
			at++
		}
	}
}

// entry gives the entry of a symbol whose word has l bits.
func entry(symbol uint32, l uint) uint32 {
	if symbol&(literal|special) == 0 {
		symbol += uint32(l) << wordAt
	}
	return symbol + uint32(l)
}

// nextWord counts up a word of l bits whose first bit, the lowest, weighs most.
func nextWord(word uint32, l uint) uint32 {
	zeros := ^word & (1<<l - 1)
	if zeros == 0 {
		return 0
	}
	top := uint32(1) << (bits.Len32(zeros) - 1)
	return word&(top-1) | top
}

// joint is what entries of two words have in common, but for the literal that comes first.
type joint struct {
	at    uint32 // index, less the word of the first literal
	entry uint32 // less the byte
}

// join merges the entry of a literal with that of the next literal or length if both words fit in
// the bits of the table. Literals whose words are of one length have the same entries behind them.
func (d *Decoder) join() {
	shortest := 1
	for shortest <= longest && d.order.count[shortest] == 0 {
		shortest++
	}
	bits := int(d.litBits)
	if shortest >= bits {
		return
	}
	single := d.single[:1<<(bits-shortest)] // those that can follow a literal
	copy(single, d.lit[:])
	first := 0
	for l := uint32(shortest); l <= uint32(bits-shortest); l++ {
		symbols, words := d.order.symbols[first:][:d.order.count[l]], d.order.words[first:]
		first += len(symbols)
		if len(symbols) == 0 || symbols[0] >= 256 {
			continue
		}
		literalNext, lengthNext := 0, len(d.joints)
		for k, f := range single[:1<<(uint32(bits)-l)] {
			at := uint32(k) << l
			switch {
			case f&literal != 0:
				if l+f&dropMask <= uint32(bits) {
					d.joints[literalNext] = joint{at, f&(1<<byteAt-1) + l + 1<<literalsAt + f>>byteAt<<(byteAt+8)}
					literalNext++
				}
			case f&special == 0 && l+f>>wordAt&wordMask <= uint32(bits):
				lengthNext--
				d.joints[lengthNext] = joint{at, f + l + l<<wordAt | 1<<literalsAt}
			}
		}
		for i, s := range symbols {
			if s >= 256 {
				break
			}
			word := uint32(words[i])
			for _, j := range d.joints[:literalNext] {
				d.lit[(word+j.at)%litSize] = j.entry + uint32(s)<<byteAt
			}
			for _, j := range d.joints[lengthNext:] {
				d.lit[(word+j.at)%litSize] = j.entry + uint32(s)<<byteAt
			}
		}
	}
}
