//go:build !amd64

package deflate

const fastest = portable

func (vectors) count(*literalCounts, []byte) int { return 0 }

func equalVectors([]byte, int, int) int { panic("not for this processor") }

func (vectors) skip(_ []byte, i int) int { return i }

func (vectors) write(_ *code, _ []byte, at int, acc, n uint64, p []byte) (int, uint64, uint64, []byte) {
	return at, acc, n, p
}
