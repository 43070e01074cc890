package deflate

import "encoding/binary"

// counts holds how often tokens have each symbol.
type counts struct {
	lits  [litSymbols]uint32
	dists [distSymbols]uint32
}

// literalCounts holds how often bytes are literals. It has four tables, by the place of the byte:
// equal bytes are often next to each other, and a count can't be incremented before the last
// increment is stored.
type literalCounts [4][256]uint32

// clear sets the counts to those of a block without tokens.
func (c *counts) clear() {
	clear(c.lits[:])
	clear(c.dists[:])
	c.lits[endOfBlock] = 1
}

// count adds the symbols of tokens to the counts.
func (c *counts) count(tokens []uint32, src []byte, v vectors) {
	var first, second [512]uint32
	var lits literalCounts
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t < literalRun {
			first[t&symbolMask]++
			second[t>>secondAt&symbolMask]++
			continue
		}
		i++
		p := src[tokens[i]:][:t&^literalRun]
		if len(p) >= vector {
			p = p[v.count(&lits, p):]
		}
		lits.add(p)
	}
	for s := range 256 {
		c.lits[s] += first[s] + second[s] + lits[0][s] + lits[1][s] + lits[2][s] + lits[3][s]
	}
	for k, s := range lengthSymbols {
		c.lits[257+int(s)] += first[firstLength+k]
	}
	for s := range c.dists {
		c.dists[s] += second[firstDist+s]
	}
}

// add counts the bytes of p.
func (c *literalCounts) add(p []byte) {
	for ; len(p) >= 8; p = p[8:] {
		v := binary.LittleEndian.Uint64(p)
		c[0][v&255]++
		c[1][v>>8&255]++
		c[2][v>>16&255]++
		c[3][v>>24&255]++
		c[0][v>>32&255]++
		c[1][v>>40&255]++
		c[2][v>>48&255]++
		c[3][v>>56]++
	}
	for _, b := range p {
		c[0][b]++
	}
}
