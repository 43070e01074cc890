//go:build !amd64

package deflate

const fastest = portable

func (vectors) count(*literalCounts, []byte) int { return 0 }

func equalVectors([]byte, int, int) int { panic("not for this processor") }

func (vectors) skip(_ []byte, i int) int { return i }

func (vectors) write(_ *code, _ []byte, at int, acc, n uint64, p []byte) (int, uint64, uint64, []byte) {
	return at, acc, n, p
}

func (vectors) find(*candidates, *pairTable, []byte, int, int) int { return 0 }

func (vectors) take(
	_ *[mostTokens]uint32, n int, _ []byte, found uint64, _ *[64]uint16, _ *[64]uint8, _, done int,
) (int, int, uint64) {
	return n, done, found
}

func (vectors) tokens(_ *code, _ []byte, at int, acc, n uint64, _ []uint32) (int, uint64, uint64, int) {
	return at, acc, n, 0
}
