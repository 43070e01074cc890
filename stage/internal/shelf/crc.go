package shelf

// CombineCRC32C is the CRC-32C of two pieces of bytes, one behind the other, from the checksums of the two and the length of the second:
// what several connections read side by side is checked without reading it again.
func CombineCRC32C(a, b uint32, lengthOfB int64) uint32 {
	// Appending n bytes multiplies a checksum, which is a remainder modulo the polynomial, by x to the 8n.
	p := uint32(1) << 31 // x to the 0; the highest bit is the lowest power
	for k, n := 3, lengthOfB; n > 0; k, n = k+1, n>>1 {
		if n&1 == 1 {
			p = multiply(squares[k], p)
		}
	}
	return multiply(p, a) ^ b
}

const castagnoli = 0x82f63b78 // the polynomial without its highest power, as hash/crc32 has it

// multiply multiplies two remainders.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		b = b>>1 ^ castagnoli&-(b&1)
	}
	return product
}

// squares has x to the power of two to the k, enough for 8 times any int64.
var squares = func() (t [66]uint32) {
	t[0] = 1 << 30
	for k := 1; k < len(t); k++ {
		t[k] = multiply(t[k-1], t[k-1])
	}
	return t
}()
