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
	*[mostTokens]uint32, int, []byte, uint64, *[64]uint16, *[64]uint8, int, int,
) (int, int, uint64) {
	panic("not for this processor")
}

func (vectors) tokens(*code, []byte, int, uint64, uint64, []uint32) (int, uint64, uint64, int) {
	panic("not for this processor")
}
