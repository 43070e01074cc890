package deflate

import "math/bits"

// Sizes of the alphabets, and the lengths of the longest words. Deflate allows 15 bits. With 13,
// four literals fit in one flush of the writer; this makes streams less than 0.1 % larger.
const (
	litSymbols  = 286
	distSymbols = 30
	metaSymbols = 19
	endOfBlock  = 256

	litLimit  = 13
	distLimit = 12
	metaLimit = 7
)

// huffman computes the lengths of the words of a prefix code. The result depends only on the
// counts: symbols of equal counts keep their order.
type huffman struct {
	keys, spare [litSymbols]uint32 // count<<9 | symbol
	weights     [2 * litSymbols]uint32
	parents     [2 * litSymbols]uint16
}

// lengths sets lens to the lengths of the words of the symbols with these counts, at most limit
// bits. The counts must be below 1<<22. Fewer than two symbols get a code of two words of one bit,
// since some decoders refuse an incomplete code.
func (h *huffman) lengths(lens []uint8, counts []uint32, limit int) {
	clear(lens)
	n, all := 0, uint32(0)
	for s, c := range counts {
		if c != 0 {
			h.keys[n] = c<<9 | uint32(s)
			all |= c
			n++
		}
	}
	if n < 2 {
		lens[0], lens[1] = 1, 1
		if s := h.keys[0] & 511; n == 1 && s > 1 {
			lens[1], lens[s] = 0, 1
		}
		return
	}
	keys := h.sort(n, all)
	h.join(keys)

	// The depths of the leaves, which are in the order of the sorted keys.
	var number [litLimit + 1]int
	depths := &h.weights // the weights are no longer needed
	root := 2*n - 2
	depths[root] = 0
	for i := root - 1; i >= 0; i-- {
		depths[i] = depths[h.parents[i]] + 1
		if i < n {
			number[min(int(depths[i]), limit)]++
		}
	}
	repair(number[:limit+1])
	i := 0
	for l := limit; l > 0; l-- {
		for range number[l] {
			lens[keys[i]&511] = uint8(l)
			i++
		}
	}
}

// sort sorts the first n keys by count and symbol. all is the OR of all counts.
func (h *huffman) sort(n int, all uint32) []uint32 {
	from, to := h.keys[:n], h.spare[:n]
	for shift := 9; all != 0; shift, all = shift+8, all>>8 {
		var at [256]uint16
		for _, k := range from {
			at[k>>shift&255]++
		}
		sum := uint16(0)
		for i, c := range at {
			at[i] = sum
			sum += c
		}
		for _, k := range from {
			d := k >> shift & 255
			to[at[d]] = k
			at[d]++
		}
		from, to = to, from
	}
	return from
}

// join builds the tree over the sorted keys: each node is the parent of the two lightest without a
// parent. Leaves are 0 to n-1; nodes are n to 2n-2, in order of weight.
func (h *huffman) join(keys []uint32) {
	n := len(keys)
	for i, k := range keys {
		h.weights[i] = k >> 9
	}
	leaf, node := 0, n
	for next := n; next < 2*n-1; next++ {
		w := uint32(0)
		for range 2 {
			pick := node
			if leaf < n && (node == next || h.weights[leaf] <= h.weights[node]) {
				pick = leaf
				leaf++
			} else {
				node++
			}
			w += h.weights[pick]
			h.parents[pick] = uint16(next)
		}
		h.weights[next] = w
	}
}

// repair makes the code with these numbers of words, by length, complete. There may be too many of
// the longest, since longer ones were cut.
func repair(number []int) {
	limit := len(number) - 1
	free := 1 << limit
	for l, k := range number {
		if l > 0 {
			free -= k << (limit - l)
		}
	}
	for l := limit - 1; free < 0; {
		if number[l] == 0 {
			l--
			continue
		}
		number[l]--
		number[l+1]++
		free += 1 << (limit - l - 1)
		l = min(l+1, limit-1)
	}
	for l := limit; free > 0; {
		if number[l] == 0 || free < 1<<(limit-l) {
			l--
			continue
		}
		number[l]--
		number[l-1]++
		free -= 1 << (limit - l)
	}
}

// words returns the entry of each symbol: its word in the highest bits, first bit lowest, and the
// number of bits in the lowest six. A symbol without a word has 0.
func words(entries []uint64, lens []uint8) {
	var number, next [16]uint32
	for _, l := range lens {
		number[l&15]++
	}
	number[0] = 0
	word := uint32(0)
	for l := 1; l < 16; l++ {
		word = (word + number[l-1]) << 1
		next[l] = word
	}
	for s, l := range lens {
		if l == 0 {
			entries[s] = 0
			continue
		}
		w := uint64(bits.Reverse32(next[l&15]) >> (32 - l&31))
		next[l&15]++
		entries[s] = w<<(64-l&63) | uint64(l)
	}
}
