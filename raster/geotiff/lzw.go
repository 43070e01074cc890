package geotiff

import "errors"

// lzwDecoder decodes TIFF's LZW: codes of 9 to 12 bits, most significant bit first, which grow one
// code early. golang.org/x/image/tiff/lzw does the same through an io.Reader that is made anew for each
// tile; this one works from slice to slice and keeps its table. A string of the table is held as the
// place in dst where it was last written, so that it is copied, not walked backwards.
type lzwDecoder struct {
	start  [4096]int32 // of the string in dst
	length [4096]int32
}

const (
	lzwClear = 256
	lzwEnd   = 257
)

var (
	errLZWCode = errors.New("a code of its LZW data is not in the table")
	errLZWOld  = errors.New("its LZW data is of the old kind with the bits the other way round, which leat does not read")
)

// decode fills dst. Data beyond it is left alone, as libtiff does.
func (d *lzwDecoder) decode(dst, src []byte) error {
	if len(src) >= 2 && src[0] == 0 && src[1]&1 == 1 {
		return errLZWOld
	}
	var (
		acc   uint64
		have  uint
		width uint = 9
		next       = 258 // the code that the next string gets
		prev       = -1  // where the string before begins in dst, -1 after a clear code
		plen  int
		out   int
	)
	for out < len(dst) {
		for have < width {
			if len(src) == 0 {
				return errShort
			}
			acc = acc<<8 | uint64(src[0])
			src = src[1:]
			have += 8
		}
		have -= width
		code := int(acc>>have) & (1<<width - 1)
		switch {
		case code == lzwClear:
			width, next, prev = 9, 258, -1
			continue
		case code == lzwEnd:
			return errShort
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
			if n > len(dst)-out { // the end of the data is inside a string
				n = len(dst) - out
			}
			copy(dst[out:out+n], dst[from:from+n])
		case code == next: // the string before and its first byte once more
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
		if prev >= 0 && next < 4096 { // the string before and the first byte of this one lie side by side
			d.start[next], d.length[next] = int32(prev), int32(plen+1)
			next++
			if next+1 >= 1<<width && width < 12 {
				width++
			}
		}
		prev, plen = at, n
	}
	return nil
}
