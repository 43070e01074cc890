package overview

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the routines of pick_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2

//go:noescape
func pick2AVX(dst, src *uint32, n, next int)

//go:noescape
func pick4AVX(dst, src *uint32, n, next int)

// pickFast takes every second or fourth pixel of a row, and returns how many. It fetches the row
// that begins next pixels after this one into the cache.
func pickFast(out, row []uint32, f, next int) int {
	n := min(len(out), len(row)/f) &^ 7
	if !hasAVX2 || n == 0 {
		return 0
	}
	switch f {
	case 2:
		pick2AVX(&out[0], &row[0], n, 4*next)
	case 4:
		pick4AVX(&out[0], &row[0], n, 4*next)
	default:
		return 0
	}
	return n
}
