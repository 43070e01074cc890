package geotiff

import (
	"encoding/binary"
	"math"

	"leat/internal/scalarvalue"
	"leat/internal/tiff"
	"leat/ndarray"
)

// placeRow writes the n pixels from pixel first on, of sample s of a stored row, to dst. The words
// of src are in the machine's byte order. dst and src are aligned to their words.
func (im *image) placeRow(dst, src []byte, first, n, s int) {
	step := im.perPixel
	if im.conv == convBits {
		im.placeBits(dst, src, first, n, s)
		return
	}
	src = src[(first*step+s)*im.size:]
	switch im.conv {
	case convHalf:
		out := ndarray.Cast[float32](dst)[:n]
		for i := range out {
			out[i] = ndarray.Float16ToFloat32(binary.NativeEndian.Uint16(src[2*i*step:]))
		}
		return
	case convCInt2:
		out := ndarray.Cast[complex64](dst)[:n]
		for i := range out {
			p := src[4*i*step:]
			out[i] = complex(float32(int16(binary.NativeEndian.Uint16(p))),
				float32(int16(binary.NativeEndian.Uint16(p[2:]))))
		}
		return
	case convCInt4:
		out := ndarray.Cast[complex128](dst)[:n]
		for i := range out {
			p := src[8*i*step:]
			out[i] = complex(float64(int32(binary.NativeEndian.Uint32(p))),
				float64(int32(binary.NativeEndian.Uint32(p[4:]))))
		}
		return
	}
	if step == 1 {
		copy(dst[:n*im.size], src)
		return
	}
	switch im.size {
	case 1:
		pick(dst[:n], src, step)
	case 2:
		pick(ndarray.Cast[uint16](dst)[:n], ndarray.Cast[uint16](src), step)
	case 4:
		pick(ndarray.Cast[uint32](dst)[:n], ndarray.Cast[uint32](src), step)
	case 8:
		pick(ndarray.Cast[uint64](dst)[:n], ndarray.Cast[uint64](src), step)
	default:
		for i := 0; i < n; i++ {
			copy(dst[i*im.size:(i+1)*im.size], src[i*step*im.size:])
		}
	}
}

// pick copies every step-th element of src.
func pick[T uint8 | uint16 | uint32 | uint64](dst, src []T, step int) {
	for i := range dst {
		dst[i] = src[i*step]
	}
}

// placeBits widens packed samples to bytes or 16-bit words.
func (im *image) placeBits(dst, src []byte, first, n, s int) {
	bits := im.bits
	if bits == 1 && im.perPixel == 1 { // masks
		for i := range dst[:n] {
			at := first + i
			dst[i] = src[at>>3] >> (7 - at&7) & 1
		}
		return
	}
	at := (first*im.perPixel + s) * bits
	step := im.perPixel * bits
	mask := uint32(1)<<bits - 1
	for i := 0; i < n; i++ {
		// A sample of at most 15 bits spans at most three bytes.
		k := at >> 3
		v := uint32(src[k]) << 16
		if k+1 < len(src) {
			v |= uint32(src[k+1]) << 8
		}
		if k+2 < len(src) {
			v |= uint32(src[k+2])
		}
		v = v >> (24 - at&7 - bits) & mask
		if bits > 8 {
			binary.NativeEndian.PutUint16(dst[2*i:], uint16(v))
		} else {
			dst[i] = byte(v)
		}
		at += step
	}
}

// fillBytes returns the bytes of the pixel of type t that fills missing tiles: the nodata value,
// clamped to the range of the type as in GDAL, or 0 if there is none.
func fillBytes(t ndarray.DType, text string) []byte {
	p := make([]byte, t.Size())
	if text == "" {
		return p
	}
	s, err := ndarray.ParseScalar(text, t)
	if err != nil {
		v, ok := parseNumber(text)
		if !ok {
			return p
		}
		if t.IsInteger() {
			lo, hi := t.Limits()
			v = math.Round(v)
			switch {
			case math.IsNaN(v):
				return p
			case v <= lo:
				v = lo
			case v >= hi:
				for i := range p { // the largest value of the type
					p[i] = 0xff
				}
				if t.IsSigned() {
					p[topByte(len(p))] = 0x7f
				}
				return p
			}
		}
		if s, err = ndarray.ScalarFromFloat(v, t); err != nil {
			return p
		}
	}
	scalarvalue.Put(s, p)
	return p
}

func topByte(size int) int {
	if tiff.NativeBig {
		return 0
	}
	return size - 1
}

// fillRow fills dst with copies of pixel.
func fillRow(dst, pixel []byte) {
	for n := copy(dst, pixel); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
