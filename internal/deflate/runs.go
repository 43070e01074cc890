package deflate

import "math/bits"

// runs finds only repetitions of one byte. Noise after predictor 3 has no others: matches at other
// distances are so rare there that the words for distances cost more than they save.
func (e *Encoder) runs(tokens []uint32, src []byte, at, end int) int {
	n, done := 0, at // done: all before it has tokens
	i := max(at, 1)
	start := i
	for i+8 <= end {
		x := load(src, i) ^ load(src, i-1)
		if uint32(x) != 0 && x>>32 != 0 {
			if i += 8; i+vector <= end && e.code.vectors != portable {
				i = e.code.vectors.skip(src[:end], i)
			}
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
			to = runEnd(src, to, end)
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

// sparse finds repetitions of the row above and of one byte: areas without data have few others. A
// match with the row above includes the values other than 0 that a predictor leaves at the
// beginning of a row.
func (e *Encoder) sparse(tokens []uint32, src []byte, at, end int) int {
	row, above := e.row, distToken(uint32(e.row))
	n, i, done := 0, at, at // done: all before it has tokens
	for i < end-matchGuard {
		v := load(src, i)
		if i >= row && uint32(load(src, i-row)^v) == 0 {
			n = appendLiterals(tokens, n, src, done, i)
			to := repeatEnd(src, i+4, row, end)
			if rest := (to - i) % maxMatch; rest < 4 || to-rest >= end-matchGuard {
				to -= rest // its symbol would cost more than it saves
			}
			n = appendMatch(tokens, n, above, to-i, minMatch)
			i, done = to, to
			continue
		}
		if uint32(v^v>>8) == 0 {
			n = appendLiterals(tokens, n, src, done, i+1)
			to := runEnd(src, i+5, end)
			n = appendRun(tokens, n, to-i-1)
			i, done = to, to
			continue
		}
		i++
	}
	return appendLiterals(tokens, n, src, done, end)
}
