package deflate

import "math/bits"

// enough is the length of a match that ends the search for a longer one.
const enough = 12

// wordBits is the number of index bits of two tables: the last places of four bytes and of seven.
const wordBits = 14

// rows finds matches of at least four bytes. It takes the longest of three candidates: one row
// back, and the last places with the same four and the same seven bytes. If the match at the next
// byte is longer, that one wins.
func (e *Encoder) rows(src []byte, at, end int) int {
	tokens, table, row := e.tokens, &e.table, e.row
	stop := end - matchGuard
	n, i, done := 0, at, at // done: all before it has tokens
	for i < stop {
		length, dist := longestInRows(table, src, i, end, minMatch, row)
		if length == 0 {
			i = skipInRows(table, src, i+1, stop, row)
			continue
		}
		next := i + 1
		for length < enough && next < stop {
			l, d := longestInRows(table, src, next, end, length, row)
			next++
			if l == 0 {
				break
			}
			i++
			length, dist = l, d
		}
		n = appendLiterals(tokens, n, src, done, i)
		tokens[n] = distToken(uint32(dist)) | (firstLength + uint32(length) - minMatch)
		n++
		i += length
		done = i
		enterInRows(table, src, next, min(i, stop))
	}
	return appendLiterals(tokens, n, src, done, end)
}

// enterInRows enters the places of a match from i on in the tables.
func enterInRows(table *[tableSize]uint16, src []byte, i, end int) {
	for ; i < end; i++ {
		v := load(src, i)
		if v == bits.RotateLeft64(v, 8) && i+8 < end && load(src, i+8) == v {
			i += 7 // the last of these places would replace the others
			continue
		}
		table[fourHash(v)%tableSize] = uint16(i)
		table[sevenHash(v)%tableSize] = uint16(i)
	}
}

// skipInRows returns the first place from i on where a candidate of rows may have the same four
// bytes, or stop. It enters the places before it in the tables.
func skipInRows(table *[tableSize]uint16, src []byte, i, stop, row int) int {
	for ; i < stop; i++ {
		v := load(src, i)
		h, g := fourHash(v)%tableSize, sevenHash(v)%tableSize
		a := uint32(v ^ load(src, max(i-row, 0)))
		b := uint32(v ^ load(src, max(i-int(uint16(i)-table[g]), 0)))
		c := uint32(v ^ load(src, max(i-int(uint16(i)-table[h]), 0)))
		// One branch for all three: a difference is negative if its word is 0.
		if int64((uint64(a)-1)|(uint64(b)-1)|(uint64(c)-1)) < 0 {
			break
		}
		table[h], table[g] = uint16(i), uint16(i)
	}
	return i
}

func fourHash(v uint64) uint64 { return uint64(uint32(v) * 2654435761 >> (32 - wordBits)) }

func sevenHash(v uint64) uint64 { return v<<8*hashPrime>>(64-wordBits) + 1<<wordBits }

// longestInRows returns the longest match of the candidates of rows, or 0 if none is longer than
// least. It enters i in the tables.
func longestInRows(table *[tableSize]uint16, src []byte, i, end, least, row int) (length, dist int) {
	v := load(src, i)
	h, g := fourHash(v)%tableSize, sevenHash(v)%tableSize
	four, seven := table[h], table[g]
	table[h], table[g] = uint16(i), uint16(i)
	if row <= i {
		if x := load(src, i-row) ^ v; uint32(x) == 0 {
			if l := matchLength(x, src, i, row, end); l > least {
				length, dist, least = l, row, l
			}
		}
	}
	d := int(uint16(i) - seven)
	if x := load(src, max(i-d, 0)) ^ v; uint32(x) == 0 && inWindow(d, i) && d != row {
		if l := matchLength(x, src, i, d, end); l > least {
			length, dist, least = l, d, l
		}
	}
	d = int(uint16(i) - four)
	if x := load(src, max(i-d, 0)) ^ v; uint32(x) == 0 && inWindow(d, i) && four != seven && d != row {
		if l := matchLength(x, src, i, d, end); l > least {
			length, dist = l, d
		}
	}
	return length, dist
}

// matchLength returns the length of the match at i and distance d, which ends at end at the latest.
// x is the XOR of its first eight bytes.
func matchLength(x uint64, src []byte, i, d, end int) int {
	if x != 0 {
		return bits.TrailingZeros64(x) >> 3
	}
	return matchEnd(src, i+8, d, min(end, i+maxMatch)) - i
}
