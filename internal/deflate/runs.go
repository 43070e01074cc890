package deflate

import "math/bits"

// runs finds only repetitions of one byte. Noise after predictor 3 has no others: matches at other
// distances are so rare there that the words for distances cost more than they save.
func (e *Encoder) runs(src []byte, at, end int) int {
	tokens := e.tokens
	n, done := 0, at // done: all before it has tokens
	i := max(at, 1)
	start := i
	for i+8 <= end {
		x := load(src, i) ^ load(src, i-1)
		if uint32(x) != 0 && x>>32 != 0 {
			i += 8
			continue
		}
		from, to := i, i+8
		if uint32(x) == 0 {
			for from > start && src[from-1] == src[from-2] {
				from--
			}
		} else {
			from += 4 - bits.LeadingZeros32(uint32(x))>>3
		}
		if x>>32 != 0 {
			to = i + bits.TrailingZeros64(x)>>3
		} else {
			to = matchEnd(src, to, 1, end)
		}
		i, start = to, to
		if to-from < 5 {
			continue
		}
		n = appendLiterals(tokens, n, src, done, from)
		n = appendRun(tokens, n, to-from)
		done = to
	}
	return appendLiterals(tokens, n, src, done, end)
}
