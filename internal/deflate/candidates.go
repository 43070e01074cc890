package deflate

import "math/bits"

// groupPixels is the number of pixels at which matches are sought at once.
const groupPixels = 1024

// pairTable holds the last place of pixels with the same hash of four bytes, modulo 65536. Places
// that have not been entered are 0.
type pairTable [1 << hashBits]uint16

// candidates are matches that begin at the pixels of a group.
type candidates struct {
	found [groupPixels / 64]uint64 // a bit for each pixel, set if a match of four bytes begins there
	dists [groupPixels]uint16      // the distance of the last place of the same hash
	lens  [groupPixels]uint8       // equal bytes at that distance, at most eight
}

// find sets the candidates of the n pixels of src from at on, and enters their places in table,
// which has none from at on. Eight bytes can be loaded at the last pixel.
//
// It has no branches on the pixels. Whether a pair repeats is random, and such a branch would often
// be mispredicted.
func (c *candidates) find(v vectors, table *pairTable, src []byte, at, n int) {
	k := v.find(c, table, src, at, n)
	last(c.dists[k:n], table, src, at+2*k)
	for ; k < n; k += 64 {
		c.found[k>>6] = equal(c.dists[k:min(k+64, n)], c.lens[k:], src, at+2*k)
	}
}

// last sets dists to the distances of the last places of the same hash, for the pixels from i on.
func last(dists []uint16, table *pairTable, src []byte, i int) {
	for k := range dists {
		h := pixelHash(load(src, i))
		dists[k] = uint16(i) - table[h]
		table[h] = uint16(i)
		i += 2
	}
}

// equal sets lens for at most 64 pixels, which have the distances dists. The first one is at i. It
// returns the bits for found.
func equal(dists []uint16, lens []uint8, src []byte, i int) (found uint64) {
	lens = lens[:len(dists)]
	for k, d := range dists {
		x := load(src, i-int(d)) ^ load(src, i)
		lens[k] = uint8(bits.TrailingZeros64(x) / 8)
		// Both differences are negative for a match of four bytes in the window.
		found = found>>1 | (x<<32>>1-1)&(uint64(d-1)-window)&(1<<63)
		i += 2
	}
	return found >> (-len(dists) & 63)
}

// take stores the tokens of matches that begin at the 64 pixels of src from base on, and those of
// the literals before each match, in tokens from n on. Bytes before done have tokens already. No
// match exceeds end. It returns the next n and done.
func (c *candidates) take(
	v vectors, tokens *[mostTokens]uint32, n int, src []byte, base, group, done, end int,
) (int, int) {
	found := c.found[group]
	dists, lens := (*[64]uint16)(c.dists[64*group:]), (*[64]uint8)(c.lens[64*group:])
	if done > base {
		found &= ^uint64(0) << (uint(done-base+1) / 2)
	}
	for found != 0 {
		if v != portable {
			n, done, found = v.take(tokens, n, src, found, dists, lens, base, done)
			if found == 0 {
				break
			}
		}
		k := bits.TrailingZeros64(found)
		i, d := base+2*k, int(dists[k&63])
		to := i + int(lens[k&63])
		if lens[k&63] == 8 {
			to = longEnd(src, to, d, end)
		}
		found &= ^uint64(0) << (uint(to-base+1) / 2)
		if d < i {
			// A match may begin at the byte before. This is random too, and without a branch.
			differs := int(src[i-1] ^ src[i-1-d])
			i -= (differs - 1) & (done - i) >> 63 & 1
		}
		if i-done > 8 {
			n = appendLiteralPairs(tokens[:], n, src, done, i)
		} else {
			t, x := (*[4]uint32)(tokens[n:]), load(src, done)
			t[0], t[1], t[2], t[3] = twoLiterals(x), twoLiterals(x>>16), twoLiterals(x>>32), twoLiterals(x>>48)
			n += (i - done) / 2
			tokens[n] = literal | uint32(src[i-1])
			n += (i - done) & 1
		}
		n = appendMatch(tokens[:], n, distToken(uint32(d)), to-i, minMatch)
		done = to
	}
	return n, done
}

// longEnd returns the end of a match that begins eight bytes before i. Pixels that are equal to
// those before are compared up to end.
func longEnd(src []byte, i, d, end int) int {
	if d <= maxPeriod {
		return repeatEnd(src, i, d, end)
	}
	return matchEnd(src, i, d, min(end, i-8+maxMatch-1))
}
