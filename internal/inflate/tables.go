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
//	literals   6 set, 16-23 the byte; 8 set for two of them, 24-31 the second one,
//	           10-13 bits of the first word
//	special    7 set; 8 set for the end of the block; 9 set for a second table: 10-22 its index,
//	           23-29 the mask of its index bits; neither if no word begins with these bits
//	lengths    6, 7 clear, 10-13 bits of the words alone, 14-22 the shortest length;
//	           23 set if a literal comes first, with 24-31 the byte
//	distances  6, 7 clear, 10-13 bits of the word alone, 16-30 the shortest distance
const (
	dropMask  = 63
	literal   = 1 << 6
	special   = 1 << 7
	blockEnds = 1 << 8
	pairAt    = 8
	further   = 1 << 9

	wordAt     = 10
	wordMask   = 15
	lengthAt   = 14
	lengthMask = 1<<9 - 1
	afterAt    = 23
	byteAt     = 24
	literalAt  = 16
	secondAt   = 24
	distAt     = 16

	tableAt   = 10
	tableMask = 1<<13 - 1
	indexAt   = 23
	indexMask = 1<<7 - 1

	endOfBlock = 256
	longest    = 15 // bits of a word
)

// Bits of the tables, and the numbers of their entries. A second-level table of 2^k entries holds
// at least k+1 words, for a code has no gaps; so the 286 words of lengths and literals fill at most
// 286/4 further tables of 8, and the 30 of distances 30/8 of 128. The sizes are powers of two, so
// that an index needs no check.
//
// Scenes decode at 590 MB/s with litBits 10, 640 with 11, 690 with 12 and 660 with 13: more bits,
// more words joined, until the table crowds the cache.
const (
	litBits  = 12
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
		e[s] = uint32(s)<<literalAt | literal
	}
	e[endOfBlock] = special | blockEnds
	length := uint32(3)
	for s := 257; s < 285; s++ {
		extra := uint32(max(s-261, 0) / 4)
		e[s] = extra | length<<lengthAt
		length += 1 << extra
	}
	e[285] = 258 << lengthAt
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

// build makes the table of the code whose words have the lengths lens, with primary bits and the
// entries of symbols. It refuses lengths that no code has: too many words, or too few, except a
// single one of one bit or none at all.
func build(table []uint32, primary uint, lens []uint8, symbols []uint32) bool {
	var count, next [longest + 1]int
	for _, l := range lens {
		count[l&longest]++
	}
	words := len(lens) - count[0]
	count[0] = 0
	free := 1
	for l := 1; l <= longest; l++ {
		next[l] = next[l-1] + count[l-1]
		if free = free<<1 - count[l]; free < 0 {
			return false
		}
	}
	if free > 0 {
		if words != count[1] {
			return false
		}
		for i := range table[:1<<primary] {
			table[i] = special | 1
		}
	}
	var sorted [288]uint16 // symbols by length, then by number: the order of their words
	for s, l := range lens {
		if l != 0 {
			sorted[next[l&longest]] = uint16(s)
			next[l&longest]++
		}
	}

	// The table is made for words of one bit, then doubled for each bit more.
	word, at := uint32(0), 0
	for l := uint(1); l <= primary; l++ {
		for _, s := range sorted[at : at+count[l]] {
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
				table[low] = special | further | uint32(start)<<tableAt | uint32(size-1)<<indexAt
			}
			e := entry(symbols[sorted[at]], l)
			for i := int(word >> primary); i < size; i += 1 << (l - primary) {
				table[start+i] = e
			}
			word = nextWord(word, l)
			at++
		}
	}
	return true
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

// join merges the entry of a literal with that of the next literal or length if both words fit in
// the bits of the table. It runs from the end, since it reads lower entries, which must still be
// single.
func join(table *[litSize]uint32) {
	for i := uint32(1<<litBits - 1); i > 0; i-- {
		e := table[i]
		if e&literal == 0 {
			continue
		}
		l := e & dropMask
		f := table[i>>l]
		switch {
		case f&literal != 0 && l+f&dropMask <= litBits:
			table[i] = e + f&dropMask + l<<wordAt | 1<<pairAt | f>>literalAt<<secondAt
		case f&(literal|special) == 0 && l+f>>wordAt&wordMask <= litBits:
			table[i] = f + l + l<<wordAt | 1<<afterAt | e>>literalAt<<byteAt
		}
	}
}
