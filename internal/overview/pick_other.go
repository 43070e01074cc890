//go:build !amd64

package overview

// Other processors use the Go loops only.

const hasAVX2 = false

func pickFast(_, _ []uint32, _, _ int) int { return 0 }
