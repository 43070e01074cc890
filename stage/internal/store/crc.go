package store

// CombineCRC32C returns the CRC-32C of the concatenation of a and b from their checksums and the
// length of b. With it, data that arrives over several connections is verified without a second
// read.
func CombineCRC32C(a, b uint32, lengthOfB int64) uint32 {
	// Appending n bytes multiplies a checksum, which is a remainder modulo the polynomial, by x to
	// the power of 8n.
	p := uint32(1) << 31 // x to the power of 0; the highest bit is the lowest power
	for k, n := 3, lengthOfB; n > 0; k, n = k+1, n>>1 {
		if n&1 == 1 {
			p = multiply(squares[k], p)
		}
	}
	return multiply(p, a) ^ b
}

const castagnoli = 0x82f63b78 // the polynomial without its highest power, as in hash/crc32

// multiply returns the product of two remainders.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		b = b>>1 ^ castagnoli&-(b&1)
	}
	return product
}

// squares holds x to the power of 2 to the power of k, for 8 times any int64.
var squares = func() (t [66]uint32) {
	t[0] = 1 << 30
	for k := 1; k < len(t); k++ {
		t[k] = multiply(t[k-1], t[k-1])
	}
	return t
}()
