//go:build !amd64

package deflate

const hasVectors = false

func countVectors(*literalCounts, []byte) int { panic("not for this processor") }

func writeVectors(_, _ []byte, _ *literalTable, _, _ uint64) (count, written int, accOut, heldOut uint64) {
	panic("not for this processor")
}

func skipVectors([]byte, int) int { panic("not for this processor") }
