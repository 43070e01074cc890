package inflate

import "encoding/binary"

// Bytes that one iteration of fast accesses at most.
const (
	inSpace  = 8            // one load
	outSpace = 1 + 258 + 31 // a literal and a match, which is copied in steps of 32 at most
)

// ending says why fastAVX2 returned.
type ending int

const (
	noSpace ending = iota
	blockEnded
	damaged
)

// The loops in assembly return after stretch bytes, or stretchOfPair of one of two streams, so few
// that the checksum finds them in the processor's caches. The loops of two streams take longer for
// the last 512 bytes. Also, the garbage collector can't interrupt a routine in assembly.
const (
	stretch       = 32 << 10
	stretchOfPair = 128 << 10
)

// sumStep is the least number of bytes for which the checksum is continued. It is a multiple of
// those that it takes at once.
const sumStep = 8 << 10

// fast decodes symbols as long as both ends are so distant that no symbol can reach them, and until
// enough bytes of dst are there. It reports whether the block has ended.
func (d *Decoder) fast(dst, src []byte, enough int) (end bool, err error) {
	inEnd, outEnd := len(src)-inSpace, min(len(dst)-outSpace, enough)
	if d.in > inEnd || d.out > outEnd {
		return false, nil
	}
	d.returnBytes()
	if hasAVX2 && !d.portable {
		for d.in <= inEnd && d.out <= outEnd {
			e := fastAVX2(d, &dst[0], min(outEnd, d.out+stretch), &src[0], inEnd)
			d.sumUp(dst)
			switch e {
			case blockEnded:
				return true, nil
			case damaged:
				return false, ErrDamaged
			}
		}
		return false, nil
	}
	in, out, buf, have := d.in, d.out, d.buf, uint64(d.have)
	lit, dist := &d.lit, &d.dist
	mask := uint64(1)<<d.litBits - 1
	in, buf, have = ahead(src, in, buf, have)
	e := lit[buf&mask%litSize]
	for in <= inEnd && out <= outEnd {
		// Here e is the entry of the next bits. Of have, the lowest six bits count.
		in, buf, have = ahead(src, in, buf, have)
		if e&literal != 0 {
			// Four entries take 48 bits at most. The next lookup may use those that are not
			// counted.
			out = storeLiterals(dst, out, e)
			buf >>= e & dropMask
			have -= uint64(e)
			if e = lit[buf&mask%litSize]; e&literal == 0 {
				continue
			}
			out = storeLiterals(dst, out, e)
			buf >>= e & dropMask
			have -= uint64(e)
			if e = lit[buf&mask%litSize]; e&literal == 0 {
				continue
			}
			out = storeLiterals(dst, out, e)
			buf >>= e & dropMask
			have -= uint64(e)
			if e = lit[buf&mask%litSize]; e&literal == 0 {
				continue
			}
			out = storeLiterals(dst, out, e)
			buf >>= e & dropMask
			have -= uint64(e)
			e = lit[buf&mask%litSize]
			continue
		}
		if e&special != 0 {
			if e&further != 0 {
				e = lit[place(e, buf>>d.litBits)%litSize]
			}
			if e&literal != 0 {
				out = storeLiterals(dst, out, e)
				buf >>= e & dropMask
				have -= uint64(e)
				e = lit[buf&mask%litSize]
				continue
			}
			if e&special != 0 {
				if end = e&blockEnds != 0; !end {
					err = ErrDamaged
				}
				buf >>= e & dropMask
				have -= uint64(e)
				break
			}
		}

		// The literal before the match, or a byte that the match overwrites: a branch would often
		// be mispredicted. Length and distance take 20 and 28 bits at most.
		dst[out] = byte(e >> byteAt)
		out += int(e >> literalsAt & 1)
		length := shortest + int(e>>lengthAt) + extra(e, buf)
		buf >>= e & dropMask
		have -= uint64(e)
		e = dist[buf%(1<<distBits)]
		if e&special != 0 {
			if e&further != 0 {
				e = dist[place(e, buf>>distBits)%distSize]
			}
			if e&special != 0 {
				err = ErrDamaged
				break
			}
		}
		back := int(e>>distAt) + extra(e, buf)
		if back > out {
			err = ErrDamaged
			break
		}
		buf >>= e & dropMask
		have -= uint64(e)
		e = lit[buf&mask%litSize] // before the copy, which it does not have to wait for

		from, to := out-back, out
		out += length
		if back >= 8 {
			for {
				f, t := dst[from:from+16:from+16], dst[to:to+16:to+16]
				store(t, 0, load(f, 0))
				store(t, 8, load(f, 8))
				from += 16
				if to += 16; to >= out {
					break
				}
			}
		} else {
			v, step := pattern(load(dst, from), back)
			for ; to < out; to += step {
				store(dst, to, v)
			}
		}
	}
	d.in, d.out, d.buf, d.have = in, out, buf, uint(have&63)
	return end, err
}

// returnBytes returns whole bytes to the source, of more than the loops expect.
func (d *Decoder) returnBytes() {
	for d.have > 55 {
		d.have -= 8
		d.in--
	}
}

// storeLiterals stores one or two literals and returns the end of them. A single one is followed by
// a 0, which later bytes overwrite.
func storeLiterals(dst []byte, out int, e uint32) int {
	binary.LittleEndian.PutUint16(dst[out:out+2:out+2], uint16(e>>byteAt))
	return out + int(e>>literalsAt&literalsMask)
}

// ahead fills buf with the 64 next bits and counts the whole bytes among them as taken: have is 56
// at least.
func ahead(src []byte, in int, buf, have uint64) (int, uint64, uint64) {
	have &= 63
	return in + int((63^have)>>3), buf | load(src, in)<<have, have | 56
}

// place gives the place in a table of what e leads to, by the bits that follow those of the first
// lookup.
func place(e uint32, rest uint64) uint64 {
	return uint64(e>>tableAt&tableMask) + rest&(1<<(e>>indexAt)-1)
}

// extra gives the value of the bits after a word.
func extra(e uint32, buf uint64) int {
	return int(buf & (1<<(e&dropMask) - 1) >> (e >> wordAt & wordMask))
}

// pattern repeats the first period bytes of v, fewer than 8, and gives how many of the 8 are whole
// periods.
func pattern(v uint64, period int) (uint64, int) {
	n := uint(period) * 8
	v &= 1<<n - 1
	v |= v << n
	v |= v << (2 * n)
	v |= v << (4 * n)
	return v, int("\x00\x08\x08\x06\x08\x05\x06\x07"[period&7])
}

// load and store name both ends of what they touch, which spares most of what p[i:] costs: together
// a tenth of the whole.
func load(p []byte, i int) uint64 { return binary.LittleEndian.Uint64(p[i : i+8 : i+8]) }

func store(p []byte, i int, v uint64) { binary.LittleEndian.PutUint64(p[i:i+8:i+8], v) }

// repeat sets the bytes of p from n on, which is above 0, to those n bytes before them.
func repeat(p []byte, n int) {
	for n < len(p) {
		n += copy(p[n:], p[:n])
	}
}

// careful decodes symbols to the end of the block, minding the ends of both sides.
func (d *Decoder) careful(dst, src []byte) error {
	for {
		d.refill(src)
		e := d.lit[d.buf&(1<<d.litBits-1)%litSize]
		if e&(literal|special) == special && e&further != 0 {
			e = d.lit[place(e, d.buf>>d.litBits)%litSize]
		}
		length := shortest + int(e>>lengthAt) + extra(e, d.buf)
		n := uint(e & dropMask)
		if e&literal != 0 {
			n = uint(d.lens[e>>byteAt&255]) // one at a time
		}
		if n > d.have {
			return ErrTruncated
		}
		d.drop(n)
		if e&(literal|special) == special {
			if e&blockEnds == 0 {
				return ErrDamaged
			}
			return nil
		}
		if e>>literalsAt&literalsMask != 0 {
			if d.out == len(dst) {
				return ErrLong
			}
			dst[d.out] = byte(e >> byteAt)
			d.out++
		}
		if e&literal != 0 {
			continue
		}
		d.refill(src)
		e = d.dist[d.buf%(1<<distBits)]
		if e&special != 0 && e&further != 0 {
			e = d.dist[place(e, d.buf>>distBits)%distSize]
		}
		back := int(e>>distAt) + extra(e, d.buf)
		if uint(e&dropMask) > d.have {
			return ErrTruncated
		}
		d.drop(uint(e & dropMask))
		if e&special != 0 || back > d.out {
			return ErrDamaged
		}
		whole := min(length, len(dst)-d.out)
		repeat(dst[d.out-back:d.out+whole], back)
		if d.out += whole; whole < length {
			return ErrLong
		}
	}
}
