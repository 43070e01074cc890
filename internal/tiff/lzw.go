package tiff

import (
	"errors"
	"math/bits"
)

// lzwDecoder decodes TIFF's LZW: codes of 9 to 12 bits, most significant bit first, whose width
// grows one code early. golang.org/x/image/tiff/lzw does the same through an io.Reader that must be
// created for each tile; this one decodes slices and reuses its table. The table stores where in
// dst a string was last written, so that it is copied forwards.
//
// Programs before TIFF 5 wrote the least significant bit first and let codes grow one code later.
// As in libtiff, the first two bytes show the variant: they hold a clear code, whose lower eight
// bits are 0.
type lzwDecoder struct {
	start  [4096]int32 // position of the string in dst
	length [4096]int32
}

const (
	LZWClear = 256
	LZWEnd   = 257
)

var errLZWCode = errors.New("LZW code not in the table")

// decode fills dst. Like libtiff it ignores data after the last pixel.
func (d *lzwDecoder) decode(dst, src []byte) error {
	old := len(src) >= 2 && src[0] == 0 && src[1]&1 == 1
	early := 1
	if old {
		early = 0
	}
	var (
		acc   uint64
		have  uint
		width uint = 9
		next       = 258 // the code of the next string
		prev       = -1  // start of the previous string in dst, -1 after a clear code
		plen  int
		out   int
	)
	for out < len(dst) {
		for have < width {
			if len(src) == 0 {
				return ErrShort
			}
			b := src[0]
			if old {
				b = bits.Reverse8(b)
			}
			acc = acc<<8 | uint64(b)
			src = src[1:]
			have += 8
		}
		have -= width
		code := int(acc>>have) & (1<<width - 1)
		if old {
			code = int(bits.Reverse16(uint16(code)) >> (16 - width))
		}
		switch {
		case code == LZWClear:
			width, next, prev = 9, 258, -1
			continue
		case code == LZWEnd:
			return ErrShort
		}
		at := out
		var n int
		switch {
		case code < 256:
			dst[out] = byte(code)
			n = 1
		case prev < 0:
			return errLZWCode // the first code after a clear code is a byte
		case code < next:
			from := int(d.start[code])
			n = int(d.length[code])
			if n > len(dst)-out { // the data ends within a string
				n = len(dst) - out
			}
			copy(dst[out:out+n], dst[from:from+n])
		case code == next: // the previous string and its first byte again
			n = plen + 1
			if n > len(dst)-out {
				n = len(dst) - out
			}
			for i := 0; i < n; i++ {
				dst[out+i] = dst[prev+i]
			}
		default:
			return errLZWCode
		}
		out += n
		if prev >= 0 && next < 4096 { // the previous string and the first byte of this one are adjacent in dst
			d.start[next], d.length[next] = int32(prev), int32(plen+1)
			next++
			if next+early >= 1<<width && width < 12 {
				width++
			}
		}
		prev, plen = at, n
	}
	return nil
}
