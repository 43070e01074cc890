package tiffwrite

// packBits is Apple's run-length coding. TIFF requires that each row is coded separately.
type packBits struct{}

func (packBits) appendTile(dst, src []byte, rowBytes int) ([]byte, error) {
	for len(src) > 0 {
		dst = appendPackedRow(dst, src[:rowBytes])
		src = src[rowBytes:]
	}
	return dst, nil
}

// packedMax is the largest number of bytes that one packet encodes.
const packedMax = 128

func appendPackedRow(dst, row []byte) []byte {
	for len(row) > 0 {
		n := runLength(row)
		if n >= 2 {
			dst = append(dst, byte(1-n), row[0]) // -(n-1): n copies of the byte
			row = row[n:]
			continue
		}
		// Literal bytes end where three equal ones make a run worth a packet.
		for n = 1; n < len(row) && n < packedMax && runLength(row[n:]) < 3; n++ {
		}
		dst = append(append(dst, byte(n-1)), row[:n]...)
		row = row[n:]
	}
	return dst
}

// runLength returns the number of equal bytes at the start of b, at most packedMax.
func runLength(b []byte) int {
	n := 1
	for n < len(b) && n < packedMax && b[n] == b[0] {
		n++
	}
	return n
}
