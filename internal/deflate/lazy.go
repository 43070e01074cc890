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
	n, i := 0, at
	for i < stop {
		length, dist := longestInRows(table, src, i, end, minMatch, row)
		if length == 0 {
			tokens[n] = literal | uint32(src[i])
			n++
			i++
			continue
		}
		next := i + 1
		for length < enough && next < stop {
			l, d := longestInRows(table, src, next, end, length, row)
			next++
			if l == 0 {
				break
			}
			tokens[n] = literal | uint32(src[i])
			n++
			i++
			length, dist = l, d
		}
		tokens[n] = distToken(uint32(dist)) | (firstLength + uint32(length) - minMatch)
		n++
		i += length
		for limit := min(i, stop); next < limit; next++ {
			v := load(src, next)
			if v == bits.RotateLeft64(v, 8) && next+8 < limit && load(src, next+8) == v {
				next += 7 // the last of these places would replace the others
				continue
			}
			table[fourHash(v)%tableSize] = uint16(next)
			table[sevenHash(v)%tableSize] = uint16(next)
		}
	}
	return appendLiterals(tokens, n, src, i, end)
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
