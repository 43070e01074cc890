package tiffwrite

import "encoding/binary"

// differenceRow applies predictor 2: it subtracts from each sample of src, little-endian elements
// of size bytes, the same sample of the previous pixel. pixel is the size of a pixel in bytes. A
// row has at least 16 pixels.
func differenceRow(dst, src []byte, pixel, size int) {
	copy(dst[:pixel], src)
	subtract(dst[pixel:], src[pixel:], src[:len(src)-pixel], size)
}

// floatRow applies predictor 3: it sorts the bytes of the elements into planes, most significant
// first, and subtracts from each byte the one samples places before it. tmp has the length of the
// row.
func floatRow(dst, src, tmp []byte, samples, size int) {
	n := len(src) / size
	switch size {
	case 2:
		p0, p1 := tmp[:n], tmp[n:][:n]
		for i := range p0 {
			v := binary.LittleEndian.Uint16(src[2*i:])
			p0[i], p1[i] = byte(v>>8), byte(v)
		}
	case 4:
		planes4(tmp, src)
	case 8:
		p0, p1, p2, p3 := tmp[:n], tmp[n:][:n], tmp[2*n:][:n], tmp[3*n:][:n]
		p4, p5, p6, p7 := tmp[4*n:][:n], tmp[5*n:][:n], tmp[6*n:][:n], tmp[7*n:][:n]
		for i := range p0 {
			v := binary.LittleEndian.Uint64(src[8*i:])
			p0[i], p1[i], p2[i], p3[i] = byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32)
			p4[i], p5[i], p6[i], p7[i] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
		}
	}
	copy(dst[:samples], tmp)
	subtract(dst[samples:], tmp[samples:], tmp[:len(tmp)-samples], 1)
}

// planes4 sorts the bytes of 4-byte elements into planes. Without vector routines it does so eight
// elements at a time: it transposes 4x4 bytes in the lower half of each word (elements 0 to 3) and
// in the upper half (4 to 7), which is 4 times as fast as byte by byte. The number of elements is a
// multiple of 8.
func planes4(dst, src []byte) {
	n := len(src) / 4
	p0, p1, p2, p3 := dst[:n], dst[n:][:n], dst[2*n:][:n], dst[3*n:][:n]
	le := binary.LittleEndian
	const even, low = 0x00ff00ff00ff00ff, 0x0000ffff0000ffff
	for i := planes4Fast(dst, src, n); i+8 <= n; i += 8 {
		s := src[4*i : 4*i+32]
		v0 := uint64(le.Uint32(s)) | uint64(le.Uint32(s[16:]))<<32
		v1 := uint64(le.Uint32(s[4:])) | uint64(le.Uint32(s[20:]))<<32
		v2 := uint64(le.Uint32(s[8:])) | uint64(le.Uint32(s[24:]))<<32
		v3 := uint64(le.Uint32(s[12:])) | uint64(le.Uint32(s[28:]))<<32
		a02, a13 := v0&even|v1&even<<8, v0>>8&even|v1&^even // bytes 0 and 2, 1 and 3 of the first two
		b02, b13 := v2&even|v3&even<<8, v2>>8&even|v3&^even
		le.PutUint64(p3[i:], a02&low|b02&low<<16)
		le.PutUint64(p2[i:], a13&low|b13&low<<16)
		le.PutUint64(p1[i:], a02>>16&low|b02&^low)
		le.PutUint64(p0[i:], a13>>16&low|b13&^low)
	}
}

// subtract sets dst = a - b, wrapping, for elements of size bytes. All three have the same length
// of at least 8 bytes, and dst overlaps neither a nor b.
func subtract(dst, a, b []byte, size int) {
	high := uint64(1) << (8*size - 1) // the highest bit of each element
	for w := 8 * size; w < 64; w *= 2 {
		high |= high << w
	}
	last := len(dst) - 8
	for i := subtractFast(dst, a, b, size); i < last; i += 8 {
		subtractWord(dst[i:], a[i:], b[i:], high)
	}
	subtractWord(dst[last:], a[last:], b[last:], high) // may repeat some bytes
}

func subtractWord(dst, a, b []byte, high uint64) {
	x, y := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)
	// With the highest bits of x set and those of y clear, no element borrows from the next. The
	// highest bits themselves are x ^ y ^ borrow.
	binary.LittleEndian.PutUint64(dst, ((x|high)-(y&^high))^((x^^y)&high))
}
