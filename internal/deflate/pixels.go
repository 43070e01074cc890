package deflate

// pixels finds matches of at least four bytes that begin with a pixel of two bytes: pairs of 16-bit
// values repeat, longer sequences seldom do. Such a match may also have the byte before the pixel.
//
// The table of e must have no places from at on: see choose.
func (e *Encoder) pixels(tokens []uint32, src []byte, at, end int) int {
	c, table := &e.candidates, (*pairTable)(e.places(len(pairTable{})))
	n, done := 0, at // done: all before it has tokens
	for from := at; from < end-matchGuard; {
		pixels := min(groupPixels, (end-matchGuard-from+1)/2)
		c.find(e.code.vectors, table, src, from, pixels)
		for k := 0; k < pixels; k += 64 {
			n, done = c.take(e.code.vectors, (*[mostTokens]uint32)(tokens), n, src, from+2*k, k/64, done, end)
		}
		from = max(from+2*pixels, done+(done-at)&1)
	}
	return appendLiterals(tokens, n, src, done, end)
}

// pixelsInContext is pixels with an empty table, in which places shortly before at, those of most
// matches, have been entered.
func (e *Encoder) pixelsInContext(tokens []uint32, src []byte, at, end int) int {
	e.cleared = 0
	table := (*pairTable)(e.places(len(pairTable{})))
	for i, limit := max(0, at-window/4), min(at, end-7); i < limit; i += 2 {
		table[pixelHash(load(src, i))] = uint16(i)
	}
	return e.pixels(tokens, src, at, end)
}

func pixelHash(v uint64) uint32 { return uint32(v) * 2654435761 >> (32 - hashBits) }
