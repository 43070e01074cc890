package tiffwrite

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the routines of predict_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2

//go:noescape
func planes4AVX(dst *uint8, plane int, src *uint8, n int)

//go:noescape
func subtract8AVX(dst, a, b *uint8, n int)

//go:noescape
func subtract16AVX(dst, a, b *uint8, n int)

//go:noescape
func subtract32AVX(dst, a, b *uint8, n int)

//go:noescape
func subtract64AVX(dst, a, b *uint8, n int)

// planes4Fast sorts the bytes of the first of n elements of 4 bytes into planes, and returns how
// many.
func planes4Fast(dst, src []byte, n int) int {
	m := n &^ 31
	if !hasAVX2 || m == 0 {
		return 0
	}
	_, _ = dst[4*n-1], src[4*n-1]
	planes4AVX(&dst[0], n, &src[0], m)
	return m
}

// subtractFast sets the first bytes of dst to a - b, for elements of size bytes, and returns how
// many.
func subtractFast(dst, a, b []byte, size int) int {
	n := len(dst) &^ 31
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _ = a[n-1], b[n-1]
	switch size {
	case 1:
		subtract8AVX(&dst[0], &a[0], &b[0], n)
	case 2:
		subtract16AVX(&dst[0], &a[0], &b[0], n)
	case 4:
		subtract32AVX(&dst[0], &a[0], &b[0], n)
	case 8:
		subtract64AVX(&dst[0], &a[0], &b[0], n)
	default:
		return 0
	}
	return n
}
