//go:build !amd64

package deflate

const hasVBMI = false

func literalsVBMI(_, _ []byte, _ *literalTable, _, _ uint64) (count, written int, accOut, heldOut uint64) {
	panic("not for this processor")
}
