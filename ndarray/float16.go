package ndarray

import "math"

// Float16ToFloat32 converts half-precision bits to float32, exactly.
func Float16ToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Float32ToFloat16 rounds f to the nearest half-precision value, ties to even. Values beyond the
// range become infinite, as in NumPy.
func Float32ToFloat16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	exp := int(b>>23)&0xff - 127
	frac := b & 0x7fffff
	switch {
	case exp == 128:
		if frac != 0 {
			m := uint16(frac >> 13)
			if m == 0 {
				m = 1
			}
			return sign | 0x7c00 | m
		}
		return sign | 0x7c00
	case exp > 15:
		return sign | 0x7c00
	case exp >= -14:
		h := uint32(exp+15)<<10 | frac>>13
		return sign | uint16(h+roundUp(frac&0x1fff, 0x1000, h))
	case exp >= -25:
		frac |= 0x800000
		shift := uint(-exp - 1) // 14 for 2^-15: the bits below 2^-24
		h := frac >> shift
		return sign | uint16(h+roundUp(frac&(1<<shift-1), 1<<(shift-1), h))
	}
	return sign
}

// roundUp returns 1 when the discarded bits round the value up: above half, or half with h odd.
func roundUp(rest, half, h uint32) uint32 {
	if rest > half || rest == half && h&1 == 1 {
		return 1
	}
	return 0
}
