package deflate

import "math/bits"

// elementGuard is the number of bytes at the end of a block in which elements begins no match.
const elementGuard = 16

// elementBits is the number of index bits of each half of an elementTable. Entries of a window in
// smaller tables often replace each other.
const elementBits = 15

// elementTable holds the last places, modulo 65536, of the four bytes at the beginning of an
// element, and then those of eight. Places that have not been entered are 0.
type elementTable [2 << elementBits]uint16

// enter enters i, where an element begins.
func (t *elementTable) enter(src []byte, i int) {
	v := load(src, i)
	t[fourHash(v)], t[eightHash(v)] = uint16(i), uint16(i)
}

const (
	lazyLength = 12 // a match of this length ends the search for a longer one
	// Of elementMatch bytes of a match, the tables get this many elements, the last ones. On maps
	// of classes, entering all of them takes half of the time and saves 2 %. In differences of 16
	// bits, 2 instead of 8 save a quarter of the time and cost 3 to 5 % of the size.
	entered       = 8
	enteredPixels = 2
)

// elements finds matches that begin at elements of e.step bytes, and extends them to equal bytes
// before and after: values that repeat seldom do so at other places. It takes the longer of two
// candidates, the last place of the same eight bytes and the row above, or else the last place of
// the same four bytes.
func (e *Encoder) elements(tokens []uint32, src []byte, at, end int) int {
	step, row := e.step, e.row
	last := entered * step
	if e.kind == pixels {
		last = enteredPixels * step
	}
	table := (*elementTable)(e.places(len(elementTable{})))
	mask := step - 1
	stop := end - elementGuard
	n, i, done := 0, at, at // done: all before it has tokens
	for i < stop {
		v := load(src, i)
		h, g := fourHash(v), eightHash(v)
		d, dist := int(uint16(i)-table[h]), int(uint16(i)-table[g])
		table[h], table[g] = uint16(i), uint16(i)
		x, y := load(src, max(i-d, 0))^v, load(src, max(i-dist, 0))^v
		length := 0
		// One branch for both: a difference is negative if its word is 0.
		if int64((uint64(uint32(x))-1)|(uint64(uint32(y))-1)) < 0 {
			// This is longer, without a call.
			if y == 0 && inWindow(dist, i) {
				length = matchEnd(src, i+8, dist, min(end, i+elementMatch)) - i
			}
			if i >= row && load(src, i-row) == v && row != dist {
				if l := matchEnd(src, i+8, row, min(end, i+elementMatch)) - i; l > length {
					length, dist = l, row
				}
			}
			if length > 0 {
				d = dist
				for e.lazy && length < lazyLength && i+step < stop {
					j := i + step
					v := load(src, j)
					h, g := fourHash(v), eightHash(v)
					l, dist := longer(src, v, j, int(uint16(j)-table[g]), row, end)
					if l <= length {
						break
					}
					table[h], table[g] = uint16(j), uint16(j)
					i, length, d = j, l, dist
				}
			} else if uint32(x) == 0 && inWindow(d, i) {
				length = min(matchLength(x, src, i, d, end), elementMatch)
			}
		}
		if length == 0 {
			// Elements that do not repeat are noise: look at fewer places.
			i += step
			if k := i - done; k > 4*patience {
				i += min(k>>7, 8) * step
			}
			continue
		}
		to := i + length
		if n > 0 {
			// A match before may end within this element. This is random, and without a branch.
			tokens[n-1] -= uint32(max(done-i, 0))
		}
		if i > done {
			from := i
			for from > done && from-d >= 8 && length < maxMatch {
				k := bits.LeadingZeros64(load(src, from-8)^load(src, from-8-d)) >> 3
				k = min(k, from-done, maxMatch-length)
				from -= k
				length += k
				if k < 8 {
					break
				}
			}
			n = appendLiteralPairs(tokens, n, src, done, from)
		}
		if length >= elementMatch && d <= maxPeriod {
			end := repeatEnd(src, to, d, end)
			length += end - to
			to = end
		}
		n = appendMatch(tokens, n, distToken(uint32(d)), length, minMatch+step)
		done = to
		next := max(i+step, to&^mask)
		if size := next - i; last == 2*step && last < size && size <= elementMatch && next <= stop {
			// The loop below, for most matches of pixels.
			table.enter(src, next-2*step)
			table.enter(src, next-step)
			i = next
			continue
		}
		for i < next {
			piece := min(i+elementMatch, next)
			for i = max(i+step, piece-last); i < min(piece, stop); i += step {
				table.enter(src, i)
			}
			i = piece
		}
	}
	return appendLiterals(tokens, n, src, done, end)
}

// elementsAfterWindow is elements after the elements of the window before at have been entered in
// the tables. For differences of 16 bits, a quarter of the window is enough.
func (e *Encoder) elementsAfterWindow(tokens []uint32, src []byte, at, end int) int {
	table, limit := (*elementTable)(e.places(len(elementTable{}))), min(at, end-7)
	before := window
	if e.kind == pixels {
		before = window / 4
	}
	for i := max(0, at-before); i < limit; i += e.step {
		table.enter(src, i)
	}
	return e.elements(tokens, src, at, end)
}

// elementMatch is the length of the longest match of elements before it is extended to bytes before
// it.
const elementMatch = 256

// longer returns the length and the distance of the longer match at i that begins with the eight
// bytes v, of those at distance d and in the row above. The length is 0 if there is none.
func longer(src []byte, v uint64, i, d, row, end int) (length, dist int) {
	end = min(end, i+elementMatch)
	if load(src, max(i-d, 0)) == v && inWindow(d, i) {
		length, dist = matchEnd(src, i+8, d, end)-i, d
	}
	if i >= row && row != d && row < window && load(src, i-row) == v {
		if l := matchEnd(src, i+8, row, end) - i; l > length {
			return l, row
		}
	}
	return length, dist
}

func fourHash(v uint64) uint32 { return uint32(v) * 2654435761 >> (32 - elementBits) }

func eightHash(v uint64) uint64 { return v*hashPrime>>(64-elementBits) | 1<<elementBits }

// matchLength returns the length of the match at i and distance d, which ends at end at the latest.
// x is the XOR of its first eight bytes.
func matchLength(x uint64, src []byte, i, d, end int) int {
	if x != 0 {
		return bits.TrailingZeros64(x) >> 3
	}
	return matchEnd(src, i+8, d, min(end, i+maxMatch)) - i
}

// appendLiteralPairs is appendLiterals for few literals; most of its tokens hold two. It may
// store three elements too many, and eight bytes may be read from a on.
func appendLiteralPairs(tokens []uint32, n int, src []byte, a, b int) int {
	if b-a > 32 {
		return appendLiterals(tokens, n, src, a, b)
	}
	for ; a < b; a += 8 {
		v := load(src, a)
		t := (*[4]uint32)(tokens[n:])
		t[0], t[1], t[2], t[3] = twoLiterals(v), twoLiterals(v>>16), twoLiterals(v>>32), twoLiterals(v>>48)
		if b-a < 8 {
			n += (b - a) >> 1
			if (b-a)&1 != 0 {
				tokens[n] = literal | uint32(src[b-1])
				n++
			}
			return n
		}
		n += 4
	}
	return n
}
