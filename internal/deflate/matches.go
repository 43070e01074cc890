package deflate

const (
	patience   = 32 // bytes without a match before a matcher skips; half of it for pixels
	maxSkip    = 16 // bytes
	matchGuard = 12 // bytes at the end of a block in which no match begins
	hashBits   = 14
	hashPrime  = 0x9e3779b185ebca87
)

// sixBytes finds runs, and matches of at least six bytes, which nearly always save something.
func (e *Encoder) sixBytes(tokens []uint32, src []byte, at, end int) int {
	return e.matches(tokens, src, at, end, 6)
}

// fiveBytes finds runs, and matches of at least five bytes.
func (e *Encoder) fiveBytes(tokens []uint32, src []byte, at, end int) int {
	return e.matches(tokens, src, at, end, 5)
}

// fiveBytesInContext is fiveBytes with an empty table, in which the places of the window before at
// have been entered.
func (e *Encoder) fiveBytesInContext(tokens []uint32, src []byte, at, end int) int {
	e.cleared = 0
	table := (*[1 << hashBits]uint16)(e.places(1 << hashBits))
	for i, limit := max(0, at-window), min(at, end-7); i < limit; i++ {
		table[load(src, i)<<24*hashPrime>>(64-hashBits)] = uint16(i)
	}
	return e.fiveBytes(tokens, src, at, end)
}

// matches finds runs, and matches of at least least bytes, 5 or 6.
func (e *Encoder) matches(tokens []uint32, src []byte, at, end, least int) int {
	cut := uint(64 - 8*least)
	table := (*[1 << hashBits]uint16)(e.places(1 << hashBits))
	n, i, missed := 0, at, 0
	base := 0 // tokens from here on are literals, one or two
	for i < end-matchGuard {
		v := load(src, i)
		if uint32(v^v>>8) == 0 {
			tokens[n] = literal | uint32(v&255)
			to := runEnd(src, i+5, end)
			n = appendRun(tokens, n+1, to-i-1)
			i, base, missed = to, n, 0
			continue
		}
		w := v << (cut & 63)
		h := w * hashPrime >> (64 - hashBits)
		d := int(uint16(i) - table[h])
		table[h] = uint16(i)
		if (load(src, max(i-d, 0))^v)<<(cut&63) == 0 && inWindow(d, i) {
			goto found
		}
		i++
		w = v >> 8 << (cut & 63)
		h = w * hashPrime >> (64 - hashBits)
		d = int(uint16(i) - table[h])
		table[h] = uint16(i)
		if load(src, max(i-d, 0))<<(cut&63) == w && inWindow(d, i) {
			tokens[n] = literal | uint32(v&255)
			n++
			goto found
		}
		i++
		tokens[n] = twoLiterals(v)
		n++
		if missed += 2; missed < patience {
			continue
		}

		// Bytes without matches are noise: look at fewer places.
		for from := i; ; i += min(4+(i-from)>>6, maxSkip) &^ 1 {
			if i >= end-matchGuard {
				i = min(i, end)
				n = appendLiterals(tokens, n, src, from, i)
				break
			}
			v := load(src, i)
			if uint32(v^v>>8) == 0 {
				for i > from && src[i-1] == src[i] {
					i--
				}
				n = appendLiterals(tokens, n, src, from, i)
				break
			}
			h := v << (cut & 63) * hashPrime >> (64 - hashBits)
			d = int(uint16(i) - table[h])
			table[h] = uint16(i)
			if (load(src, max(i-d, 0))^v)<<(cut&63) == 0 && inWindow(d, i) {
				for i > from && i > d && src[i-1] == src[i-d-1] {
					i--
				}
				n = appendLiterals(tokens, n, src, from, i)
				base = n
				goto found
			}
		}
		base, missed = n, 0
		continue

	found:
		to := matchEnd(src, i+least, d, min(end, i+longest(d)-2))
		for n > base && i > d && src[i-1] == src[i-d-1] && to-i < longest(d) {
			i--
			if n--; tokens[n]>>secondAt&symbolMask != none {
				tokens[n] = literal | tokens[n]&symbolMask
				n++
			}
		}
		n = appendMatch(tokens, n, distToken(uint32(d)), to-i, minMatch)
		for j := i + 2; j < min(to, end-matchGuard); j += 3 {
			table[load(src, j)<<(cut&63)*hashPrime>>(64-hashBits)] = uint16(j)
		}
		i, base, missed = to, n, 0
	}
	return appendLiterals(tokens, n, src, min(i, end), end)
}
