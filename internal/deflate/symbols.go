package deflate

import (
	"encoding/binary"
	"math/bits"
)

// A token is one or two symbols, or a run of literals.
//
//	0-8    a literal, or firstLength plus the length of a match less minMatch
//	9-17   a literal, or firstDist plus the symbol of the match's distance, or none
//	18-30  the distance's extra bits
//	31     clear
//
// With bit 31 set, the other bits are a number of literals, and the next element is the place of
// the first in the source.
const (
	secondAt    = 9
	extraAt     = 18
	symbolMask  = 511
	firstLength = 256
	firstDist   = 256
	none        = 288
	literalRun  = 1 << 31

	minMatch = 3
	maxMatch = 258
	window   = 32768
)

// lengthSymbols has the symbols, less 257, of the lengths less minMatch. lengthExtras has the
// number of their extra bits and, from bit 8, the value of these.
var lengthSymbols, lengthExtras = makeLengths()

func makeLengths() (symbols [256]uint8, extras [256]uint16) {
	length := 0
	for s := range 28 {
		extra := max(s-4, 0) / 4
		for v := range 1 << extra {
			if length < 255 {
				symbols[length], extras[length] = uint8(s), uint16(v<<8|extra)
				length++
			}
		}
	}
	symbols[255] = 28
	return symbols, extras
}

// lengthExtraBits and distExtraBits return the number of extra bits after a symbol; symbols of
// lengths are less 257.
func lengthExtraBits(s int) int {
	if s == 28 {
		return 0
	}
	return max(s-4, 0) / 4
}

func distExtraBits(s int) int { return max(s-2, 0) / 2 }

// distToken returns the part of a token that describes a distance.
func distToken(d uint32) uint32 {
	d--
	k := uint32(bits.Len32(d|2)-2) & 31 // extra bits
	return (firstDist+2*k+d>>k)<<secondAt | d&(1<<k-1)<<extraAt
}

const (
	run1    = firstDist << secondAt // a match at distance 1, less its length
	literal = none << secondAt      // a literal, less its value
)

func load(p []byte, i int) uint64 { return binary.LittleEndian.Uint64(p[i : i+8 : i+8]) }

func store(p []byte, i int, v uint64) { binary.LittleEndian.PutUint64(p[i:i+8:i+8], v) }

// inWindow reports whether a match at i can have the distance d. Matchers first compare the bytes:
// distances from a table are often too long, at random, and a branch on them would be mispredicted.
func inWindow(d, i int) bool { return d <= i && uint(d-1) < window }

// matchEnd returns where the bytes from i on cease to equal those from i-d on, or end if they don't
// before it. The bytes of the match before i are known to be equal.
func matchEnd(src []byte, i, d, end int) int {
	for i+8 <= end {
		if x := load(src, i) ^ load(src, i-d); x != 0 {
			return i + bits.TrailingZeros64(x)>>3
		}
		i += 8
	}
	for i < end && src[i] == src[i-d] {
		i++
	}
	return i
}

// repeatEnd is matchEnd for matches that may be long. It compares 64 or 256 bytes at once.
func repeatEnd(src []byte, i, d, end int) int {
	if fastest != portable {
		return matchEnd(src, equalVectors(src[:end], i, d), d, end)
	}
	const wide = 256
	for i+wide <= end && *(*[wide]byte)(src[i:]) == *(*[wide]byte)(src[i-d:]) {
		i += wide
	}
	return matchEnd(src, i, d, end)
}

// runEnd is matchEnd at a distance of 1. It compares 32 bytes at once, since runs may be long.
func runEnd(src []byte, i, end int) int {
	near := min(end, i+1024)
	if fastest != portable {
		near = min(end, i+vector)
	}
	v := uint64(src[i-1]) * 0x0101010101010101
	for ; i+32 <= near; i += 32 {
		p := (*[32]byte)(src[i:])
		if (load(p[:], 0)^v)|(load(p[:], 8)^v)|(load(p[:], 16)^v)|(load(p[:], 24)^v) != 0 {
			return matchEnd(src, i, 1, end)
		}
	}
	return repeatEnd(src, i, 1, end)
}

// twoLiterals returns the token of two literals, the lowest bytes of v.
func twoLiterals(v uint64) uint32 {
	w := uint32(v) & 0xffff
	return w + w&0xff00
}

// appendRun stores the tokens of a run of length bytes at distance 1 from n on and returns the next
// place.
func appendRun(tokens []uint32, n, length int) int {
	return appendMatch(tokens, n, run1, length, minMatch)
}

// appendMatch stores the tokens of a match, whose length may be more than one token can have. dist
// is the part of the tokens that describes the distance. The last of several tokens has at least
// the length least.
func appendMatch(tokens []uint32, n int, dist uint32, length, least int) int {
	for length > maxMatch {
		k := maxMatch
		if length < maxMatch+least {
			k = length - least
		}
		tokens[n] = dist | (firstLength + uint32(k) - minMatch)
		n++
		length -= k
	}
	tokens[n] = dist | (firstLength + uint32(length) - minMatch)
	return n + 1
}

// maxPeriod is the longest distance of matches that are extended beyond maxMatch: those of equal
// elements. Other long matches end soon, or a nearer one is found after them.
const maxPeriod = 16

// longest returns the length of the longest match at distance d.
func longest(d int) int {
	if d <= maxPeriod {
		return segmentSize
	}
	return maxMatch
}

// appendLiterals stores the tokens of the literals from a to b.
func appendLiterals(tokens []uint32, n int, src []byte, a, b int) int {
	switch b - a {
	case 0:
	case 1:
		tokens[n] = literal | uint32(src[a])
		n++
	case 2:
		tokens[n] = uint32(src[a+1])<<secondAt | uint32(src[a])
		n++
	default:
		tokens[n], tokens[n+1] = literalRun|uint32(b-a), uint32(a)
		n += 2
	}
	return n
}
