package deflate

import "golang.org/x/sys/cpu"

// fastest are the vectors of the processor.
var fastest = supported()

func supported() vectors {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasBMI1 || !cpu.X86.HasBMI2 || !cpu.X86.HasPOPCNT:
		return portable
	case cpu.X86.HasAVX512 && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2:
		return avx512
	}
	return avx2
}

// kept has, for each eight bits, the places of those that are 0, in order.
//
//lint:ignore U1000 countAVX2 reads it
var kept = makeKept()

//lint:ignore U1000 kept needs it
func makeKept() (kept [256 + 1][8]uint8) { // a vector of 16 bytes is loaded from each place
	for bits := range 256 {
		n := 0
		for place := range uint8(8) {
			if bits>>place&1 == 0 {
				kept[bits][n] = place
				n++
			}
		}
	}
	return kept
}

// countAVX2 and countAVX512 are vectors.count.
//
//go:noescape
func countAVX2(c *literalCounts, p []byte) (counted int)

//go:noescape
func countAVX512(c *literalCounts, p []byte) (counted int)

// skipAVX2 and skipAVX512 are vectors.skip.
//
//go:noescape
func skipAVX2(src []byte, i int) int

//go:noescape
func skipAVX512(src []byte, i int) int

// equalVectors returns where the bytes of src from i on cease to equal those from i-d on. If they
// don't, it returns a place after which less than a vector is left. d must be above 0 and at most
// i.
//
//go:noescape
func equalVectors(src []byte, i, d int) int

// writeBMI2 is the function literals for whole groups of eight literals of src. It returns how many
// it wrote, and to how many bytes. It stops where less than 16 bytes of out are left.
//
//go:noescape
func writeBMI2(out, src []byte, first *[512]uint64, acc, n uint64) (count, written int, accOut, nOut uint64)

// findAVX2 is find for n pixels, 64 or a multiple of it.
//
//go:noescape
func findAVX2(c *candidates, table *pairTable, src []byte, at, n int)

// takeBMI2 is candidates.take as far as vectors.take describes.
//
//go:noescape
func takeBMI2(
	tokens *uint32, src []byte, found uint64, dists *[64]uint16, lens *[64]uint8, base, done int,
) (n, to int, rest uint64)

// tokensBMI2 writes tokens. It returns how many it wrote, and to how many bytes. It stops before a
// run of literals and where less than 8 bytes of out are left.
//
//go:noescape
func tokensBMI2(
	out []byte, tokens []uint32, first, second *[512]uint64, acc, n uint64,
) (count, written int, accOut, nOut uint64)

// writeAVX512 writes the words of the literals of src to out, 64 at a time. It returns how many
// literals it wrote, and to how many bytes. It stops where less than a vector of src or 224 bytes
// of out are left. The lowest held bits of acc, fewer than eight, come first, and its other bits
// are 0. It returns the bits after the last whole byte in the same form.
//
//go:noescape
func writeAVX512(out, src []byte, t *literalTable, acc, held uint64) (count, written int, accOut, heldOut uint64)

// count counts the bytes of p in c, a vector at a time, and returns how many it counted. It may
// leave any number of them.
//
// Most bytes of differences are 0 or 255. Those are counted by comparison, the others one by one.
func (v vectors) count(c *literalCounts, p []byte) (counted int) {
	switch v {
	case avx512:
		return countAVX512(c, p)
	case avx2:
		return countAVX2(c, p)
	}
	return 0
}

// skip returns the first place, i or a multiple of 8 after it, where the next four bytes, or the
// four after these, equal those one place before them. It may stop before, at the latest where less
// than a vector is left. i must be at least 1.
func (v vectors) skip(src []byte, i int) int {
	switch v {
	case avx512:
		return skipAVX512(src, i)
	case avx2:
		return skipAVX2(src, i)
	}
	return i
}

// write writes literals of p, as long as the memory has space for the longest words. It returns
// those that are left.
func (v vectors) write(c *code, out []byte, at int, acc, n uint64, p []byte) (int, uint64, uint64, []byte) {
	count, written := 0, 0
	switch v {
	case avx512:
		if n == 0 {
			acc = 0 // its bits are of words before
		}
		count, written, acc, n = writeAVX512(out[at:], p, &c.literals, acc>>(-n&63), n)
		acc <<= -n & 63
	case avx2:
		count, written, acc, n = writeBMI2(out[at:], p, &c.first, acc, n)
	}
	return at + written, acc, n, p[count:]
}

// find is candidates.find for whole groups of 64 pixels. It returns how many pixels these are.
func (v vectors) find(c *candidates, table *pairTable, src []byte, at, n int) int {
	n &^= 63
	if v == portable || n == 0 {
		return 0
	}
	_ = src[at+2*n+5] // the last byte that is read
	findAVX2(c, table, src, at, n)
	return n
}

// take is candidates.take up to a special match: of eight bytes or more, at a distance of one or
// two, with the beginning of src, or after more than 16 literals. It returns the bits of found that
// are left. The vectors must not be portable.
func (vectors) take(
	tokens *[mostTokens]uint32, n int, src []byte, found uint64, dists *[64]uint16, lens *[64]uint8, base, done int,
) (next, to int, rest uint64) {
	const most = 96 // more than 64 pixels and 16 literals take, with what is stored beyond
	p := tokens[n : n+most]
	next, to, rest = takeBMI2(&p[0], src, found, dists, lens, base, done)
	return n + next, to, rest
}

// tokens writes tokens, up to a run of literals or the end of the memory, and returns how many. The
// vectors must not be portable.
func (vectors) tokens(c *code, out []byte, at int, acc, n uint64, tokens []uint32) (int, uint64, uint64, int) {
	count, written, acc, n := tokensBMI2(out[at:], tokens, &c.first, &c.second, acc, n)
	return at + written, acc, n, count
}
