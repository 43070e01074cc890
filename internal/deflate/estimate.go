package deflate

import "math/bits"

// Estimates of sizes are in bits, with fixed points of logBits bits.
const logBits = 12

// logs has the logarithms of 1 to 2, to the base of 2.
var logs = makeLogs()

func makeLogs() (logs [256]uint16) {
	for i := range logs {
		x := uint64(2*256+2*i+1) << 22 // the middle of the interval, with 31 fractional bits
		for range logBits {
			x = x * x >> 31
			logs[i] = logs[i]<<1 | uint16(x>>32)
			x >>= x >> 32
		}
	}
	return logs
}

// log returns the logarithm of n, which is above 0.
func log(n uint32) uint64 {
	k := bits.LeadingZeros32(n)
	return uint64(31-k)<<logBits + uint64(logs[n<<(k&31)>>23&255])
}

// of sets the counts to those of tokens and returns about the number of bits of their block.
func (c *counts) of(tokens []uint32, src []byte, v vectors) int {
	c.clear()
	c.count(tokens, src, v)
	body, head := c.size()
	return body + head
}

// size returns about the number of bits of a block with these counts after its header, and those of
// the header.
func (c *counts) size() (body, head int) {
	lits, words := entropy(c.lits[:])
	dists, more := entropy(c.dists[:])
	extra := 0
	for s, n := range c.lits[endOfBlock+1:] {
		extra += int(n) * lengthExtraBits(s)
	}
	for s, n := range c.dists {
		extra += int(n) * distExtraBits(s)
	}
	return int((lits+dists)>>logBits) + extra, 60 + words + more
}

// entropy returns the size of symbols with these counts in fixed-point bits, and about the bits
// that describe their words: one for each, since neighbours have similar lengths, and six for each
// gap. If one symbol is more frequent than all others together, its word is one bit, and the others
// begin with the other bit.
func entropy(counts []uint32) (size uint64, words int) {
	sum, most := uint32(0), uint32(0)
	for _, n := range counts {
		sum += n
		most = max(most, n)
	}
	if most > sum-most {
		size += uint64(sum) << logBits
		sum -= most
	}
	all := log(sum | 1)
	last := uint32(1)
	for _, n := range counts {
		if n != 0 {
			size += uint64(n) * (all - min(log(n), all))
			words++
			if last == 0 {
				words += 6
			}
		}
		last = n
	}
	return size, words
}

// add adds the counts of d, of another part of the block.
func (c *counts) add(d *counts) {
	for s, n := range d.lits {
		c.lits[s] += n
	}
	for s, n := range d.dists {
		c.dists[s] += n
	}
	c.lits[endOfBlock] = 1
}

// subtract is the inverse of add.
func (c *counts) subtract(d *counts) {
	for s, n := range d.lits {
		c.lits[s] -= n
	}
	for s, n := range d.dists {
		c.dists[s] -= n
	}
	c.lits[endOfBlock] = 1
}
