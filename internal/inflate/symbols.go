package inflate

import (
	"encoding/binary"
	"unsafe"
)

// What fast reads and writes at most in one turn.
const (
	inRoom  = 3 * 8            // a load of 8 bytes for each refill, of which at most 7 are taken
	outRoom = 4*3 + 258 + 2*16 // literals of four entries, a match, and what copying in steps writes too much
)

// fast decodes symbols while there is room on both sides for whatever they may be, without looking at either end. It tells
// whether the block has ended.
func (d *Decoder) fast(dst, src []byte) (end bool, err error) {
	in, out, buf, have := d.in, d.out, d.buf, uint64(d.have)
	inEnd, outEnd := len(src)-inRoom, len(dst)-outRoom
	if in > inEnd || out > outEnd {
		return false, nil
	}
	source, target := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	if have > 56 { // give a byte back: a refill counts up to 63
		have -= 8
		in--
	}
	lit, dist := &d.lit, &d.dist
	buf |= load(source, in) << (have & 63)
	in += int((63 ^ have) >> 3)
	have |= 56
	e := lit[buf%(1<<litBits)]
	for in <= inEnd && out <= outEnd {
		// Here e is the entry of the next bits. Of have, the lowest six bits count.
		have &= 63
		buf |= load(source, in) << have
		in += int((63 ^ have) >> 3)
		have |= 56

		if e&literal != 0 {
			// 56 bits are four entries of 11, and the next lookup.
			store8(target, out, byte(e>>byteAt))
			out++
			buf >>= e & dropMask
			have -= uint64(e)
			e = lit[buf%(1<<litBits)]
			if e&literal == 0 {
				continue
			}
			store8(target, out, byte(e>>byteAt))
			out++
			buf >>= e & dropMask
			have -= uint64(e)
			e = lit[buf%(1<<litBits)]
			if e&literal == 0 {
				continue
			}
			store8(target, out, byte(e>>byteAt))
			out++
			buf >>= e & dropMask
			have -= uint64(e)
			e = lit[buf%(1<<litBits)]
			continue
		}
		if e&special != 0 {
			if e&further != 0 {
				e = lit[(uint64(e>>tableAt&tableMask)+buf>>litBits&uint64(e>>indexAt&indexMask))%litSize]
			}
			if e&literal != 0 {
				store8(target, out, byte(e>>byteAt))
				out++
				buf >>= e & dropMask
				have -= uint64(e)
				e = lit[buf%(1<<litBits)]
				continue
			}
			if e&special != 0 {
				if e&blockEnds == 0 {
					err = ErrDamaged
				} else {
					buf >>= e & dropMask
					have -= uint64(e)
					end = true
				}
				break
			}
		}

		store8(target, out, byte(e>>byteAt))
		out += int(e >> afterAt & 1)
		length := int(e>>lengthAt&lengthMask) + int(buf&(1<<(e&dropMask)-1)>>(e>>wordAt&wordMask))
		buf >>= e & dropMask
		have -= uint64(e)
		e = dist[buf%(1<<distBits)]
		if e&special != 0 {
			if e&further != 0 {
				e = dist[(uint64(e>>tableAt&tableMask)+buf>>distBits&uint64(e>>indexAt&indexMask))%distSize]
			}
			if e&special != 0 {
				err = ErrDamaged
				break
			}
		}
		back := int(e>>distAt) + int(buf&(1<<(e&dropMask)-1)>>(e>>wordAt&wordMask))
		if back > out {
			err = ErrDamaged
			break
		}
		buf >>= e & dropMask
		have -= uint64(e)
		if have&63 < litBits {
			have &= 63
			buf |= load(source, in) << have
			in += int((63 ^ have) >> 3)
			have |= 56
		}
		e = lit[buf%(1<<litBits)]

		from, to := out-back, out
		out += length
		if back >= 8 {
			for {
				store(target, to, load(target, from))
				store(target, to+8, load(target, from+8))
				from += 16
				to += 16
				if to >= out {
					break
				}
			}
		} else {
			v, step := pattern(load(target, from), back)
			for ; to < out; to += step {
				store(target, to, v)
			}
		}
	}
	d.in, d.out, d.buf, d.have = in, out, buf, uint(have&63)
	return end, err
}

// pattern repeats the first period bytes of v, fewer than 8, and gives how many of the 8 are whole periods.
func pattern(v uint64, period int) (uint64, int) {
	n := uint(period) * 8
	v &= 1<<n - 1
	v |= v << n
	v |= v << (2 * n)
	v |= v << (4 * n)
	return v, int("\x00\x08\x08\x06\x08\x05\x06\x07"[period&7])
}

func load(p unsafe.Pointer, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, i))[:])
}

func store(p unsafe.Pointer, i int, v uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(p, i))[:], v)
}

func store8(p unsafe.Pointer, i int, v byte) { *(*byte)(unsafe.Add(p, i)) = v }

// careful decodes symbols to the end of the block, minding the ends of both sides.
func (d *Decoder) careful(dst, src []byte) error {
	for {
		d.refill(src)
		e := d.lit[d.buf%(1<<litBits)]
		if e&special != 0 && e&further != 0 {
			e = d.lit[(uint64(e>>tableAt&tableMask)+d.buf>>litBits&uint64(e>>indexAt&indexMask))%litSize]
		}
		switch {
		case uint(e&dropMask) > d.have:
			return ErrTruncated
		case e&blockEnds != 0 && e&special != 0:
			d.drop(uint(e & dropMask))
			return nil
		case e&special != 0:
			return ErrDamaged
		}
		if e&literal != 0 || e>>afterAt&1 != 0 {
			if d.out == len(dst) {
				return ErrLong
			}
			dst[d.out] = byte(e >> byteAt)
			d.out++
		}
		length := int(e>>lengthAt&lengthMask) + int(d.buf&(1<<(e&dropMask)-1)>>(e>>wordAt&wordMask))
		d.drop(uint(e & dropMask))
		if e&literal != 0 {
			continue
		}
		d.refill(src)
		e = d.dist[d.buf%(1<<distBits)]
		if e&special != 0 && e&further != 0 {
			e = d.dist[(uint64(e>>tableAt&tableMask)+d.buf>>distBits&uint64(e>>indexAt&indexMask))%distSize]
		}
		if uint(e&dropMask) > d.have {
			return ErrTruncated
		}
		back := int(e>>distAt) + int(d.buf&(1<<(e&dropMask)-1)>>(e>>wordAt&wordMask))
		if e&special != 0 || back > d.out {
			return ErrDamaged
		}
		d.drop(uint(e & dropMask))
		n := min(length, len(dst)-d.out)
		for i := d.out; i < d.out+n; i++ {
			dst[i] = dst[i-back]
		}
		if d.out += n; n < length {
			return ErrLong
		}
	}
}
