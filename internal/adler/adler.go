// Package adler computes the checksum of zlib streams.
package adler

import "encoding/binary"

const mod = 65521

const (
	vector  = 64           // bytes that sumsAVX2 loads at once
	longest = 512 * vector // bytes of one call, so few that no sum overflows
)

// Checksum returns the Adler-32 sum of RFC 1950. It uses AVX2, or else adds up the bytes of a word
// side by side, in lanes of 16 bits, in less than half the time of hash/adler32.
func Checksum(p []byte) uint32 { return Update(1, p) }

// Update returns the sum of the bytes whose sum is sum, which is 1 for none, and of p after them.
func Update(sum uint32, p []byte) uint32 {
	s1, s2 := uint64(sum&0xffff), uint64(sum>>16)
	if hasAVX2 {
		for len(p) >= vector {
			n := min(len(p)&^(vector-1), longest)
			bytes, weighted := sumsAVX2(&p[0], n)
			s2 = (s2 + s1*uint64(n) + weighted) % mod
			s1 = (s1 + bytes) % mod
			p = p[n:]
		}
	}
	return portable(p, s1, s2)
}

// portable continues the sums over p.
func portable(p []byte, s1, s2 uint64) uint32 {
	const (
		even  = 0x00ff00ff00ff00ff
		pairs = 0x0000ffff0000ffff
		words = 22 // 255*22*21/2 still fits in a lane
	)
	for ; len(p) >= 8*words; p = p[8*words:] {
		// a and b are the sums of the bytes of even and odd places. Each byte counts in s2 as often
		// as there are bytes after it, itself included: eight times in aa and bb for the words
		// after its own, then for its place in the word.
		var a, b, aa, bb uint64
		q := (*[8 * words]byte)(p)
		for i := 0; i < 8*words; i += 16 {
			w := binary.LittleEndian.Uint64(q[i:])
			aa += a
			bb += b
			a += w & even
			b += w >> 8 & even
			w = binary.LittleEndian.Uint64(q[i+8:])
			aa += a
			bb += b
			a += w & even
			b += w >> 8 & even
		}
		later := aa&pairs + aa>>16&pairs + bb&pairs + bb>>16&pairs
		later = later&0xffffffff + later>>32
		a0, a1, a2, a3 := a&0xffff, a>>16&0xffff, a>>32&0xffff, a>>48
		b0, b1, b2, b3 := b&0xffff, b>>16&0xffff, b>>32&0xffff, b>>48
		s2 += s1*8*words + later*8 + 8*a0 + 7*b0 + 6*a1 + 5*b1 + 4*a2 + 3*b2 + 2*a3 + b3
		s1 += a0 + a1 + a2 + a3 + b0 + b1 + b2 + b3
		s1 %= mod
		s2 %= mod
	}
	for _, c := range p {
		s1 += uint64(c)
		s2 += s1
	}
	return uint32(s2%mod)<<16 | uint32(s1%mod)
}
