package expr

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the kernels of simd_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2

//go:noescape
func addAVX32(d, a, b *float32, n int)

//go:noescape
func subAVX32(d, a, b *float32, n int)

//go:noescape
func mulAVX32(d, a, b *float32, n int)

//go:noescape
func divAVX32(d, a, b *float32, n int)

//go:noescape
func addAVX64(d, a, b *float64, n int)

//go:noescape
func subAVX64(d, a, b *float64, n int)

//go:noescape
func mulAVX64(d, a, b *float64, n int)

//go:noescape
func divAVX64(d, a, b *float64, n int)

//go:noescape
func addKAVX32(d, a *float32, n int, k float32)

//go:noescape
func subKAVX32(d, a *float32, n int, k float32)

//go:noescape
func kSubAVX32(d, a *float32, n int, k float32)

//go:noescape
func mulKAVX32(d, a *float32, n int, k float32)

//go:noescape
func divKAVX32(d, a *float32, n int, k float32)

//go:noescape
func kDivAVX32(d, a *float32, n int, k float32)

//go:noescape
func addKAVX64(d, a *float64, n int, k float64)

//go:noescape
func subKAVX64(d, a *float64, n int, k float64)

//go:noescape
func kSubAVX64(d, a *float64, n int, k float64)

//go:noescape
func mulKAVX64(d, a *float64, n int, k float64)

//go:noescape
func divKAVX64(d, a *float64, n int, k float64)

//go:noescape
func kDivAVX64(d, a *float64, n int, k float64)

//go:noescape
func widenU8AVX(d *float32, a *uint8, n int)

//go:noescape
func widenU16AVX(d *float32, a *uint16, n int)

//go:noescape
func widenI16AVX(d *float32, a *int16, n int)

//go:noescape
func to64AVX(d *float64, a *float32, n int)

//go:noescape
func to32AVX(d *float32, a *float64, n int)

//go:noescape
func specialAVX32(a *float32, n int, k float32) bool

//go:noescape
func containsAVX16(a *uint16, n int, v uint16) bool

//go:noescape
func keysAVX32(d, a *int32, n int)

//go:noescape
func orderAVX32(d, a *int32, n int)

// wide returns a kernel that uses a vector routine for whole steps and a Go loop for the rest.
func wide[T real](step int, f func(d, a, b *T, n int), rest func(d, a, b []T)) func(d, a, b []T) {
	return func(d, a, b []T) {
		n := len(d) &^ (step - 1)
		if n > 0 {
			_, _ = a[n-1], b[n-1]
			f(&d[0], &a[0], &b[0], n)
		}
		if n < len(d) {
			rest(d[n:], a[n:], b[n:])
		}
	}
}

// wideK is wide for operations with a constant.
func wideK[T real](step int, f func(d, a *T, n int, k T), rest func(d, a []T, k T)) func(d, a []T, k T) {
	return func(d, a []T, k T) {
		n := len(d) &^ (step - 1)
		if n > 0 {
			_ = a[n-1]
			f(&d[0], &a[0], n, k)
		}
		if n < len(d) {
			rest(d[n:], a[n:], k)
		}
	}
}

const (
	step32 = 32 // elements per step of the routines
	step64 = 16
)

// fastVV32 returns the vector kernel of an operation, or nil if there is none.
func fastVV32(o op) func(d, a, b []float32) {
	if !hasAVX2 {
		return nil
	}
	switch o {
	case opAdd:
		return wide(step32, addAVX32, add[float32])
	case opSub:
		return wide(step32, subAVX32, sub[float32])
	case opMul:
		return wide(step32, mulAVX32, mul[float32])
	case opDiv:
		return wide(step32, divAVX32, div[float32])
	}
	return nil
}

func fastVV64(o op) func(d, a, b []float64) {
	if !hasAVX2 {
		return nil
	}
	switch o {
	case opAdd:
		return wide(step64, addAVX64, add[float64])
	case opSub:
		return wide(step64, subAVX64, sub[float64])
	case opMul:
		return wide(step64, mulAVX64, mul[float64])
	case opDiv:
		return wide(step64, divAVX64, div[float64])
	}
	return nil
}

// fastVK32 returns the vector kernel of an operation with a constant on the right (side 1) or left.
func fastVK32(o op, side int) func(d, a []float32, k float32) {
	if !hasAVX2 {
		return nil
	}
	switch {
	case o == opAdd:
		return wideK(step32, addKAVX32, addK[float32])
	case o == opMul:
		return wideK(step32, mulKAVX32, mulK[float32])
	case o == opSub && side > 0:
		return wideK(step32, subKAVX32, subK[float32])
	case o == opSub:
		return wideK(step32, kSubAVX32, kSub[float32])
	case o == opDiv && side > 0:
		return wideK(step32, divKAVX32, divK[float32])
	case o == opDiv:
		return wideK(step32, kDivAVX32, kDiv[float32])
	}
	return nil
}

func fastVK64(o op, side int) func(d, a []float64, k float64) {
	if !hasAVX2 {
		return nil
	}
	switch {
	case o == opAdd:
		return wideK(step64, addKAVX64, addK[float64])
	case o == opMul:
		return wideK(step64, mulKAVX64, mulK[float64])
	case o == opSub && side > 0:
		return wideK(step64, subKAVX64, subK[float64])
	case o == opSub:
		return wideK(step64, kSubAVX64, kSub[float64])
	case o == opDiv && side > 0:
		return wideK(step64, divKAVX64, divK[float64])
	case o == opDiv:
		return wideK(step64, kDivAVX64, kDiv[float64])
	}
	return nil
}

// The functions below process whole steps of a chunk and return the number of elements processed.

func widenU8(d []float32, s []uint8) int {
	n := len(s) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	widenU8AVX(&d[0], &s[0], n)
	return n
}

func widenU16(d []float32, s []uint16) int {
	n := len(s) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	widenU16AVX(&d[0], &s[0], n)
	return n
}

func widenI16(d []float32, s []int16) int {
	n := len(s) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	widenI16AVX(&d[0], &s[0], n)
	return n
}

func to64Fast(d []float64, s []float32) int {
	n := len(s) &^ (step64 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	to64AVX(&d[0], &s[0], n)
	return n
}

func to32Fast(d []float32, s []float64) int {
	n := len(s) &^ (step64 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	to32AVX(&d[0], &s[0], n)
	return n
}

// special32Fast also reports whether any of these elements is infinite, NaN or k.
func special32Fast(s []float32, k float32) (int, bool) {
	n := len(s) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0, false
	}
	return n, specialAVX32(&s[0], n, k)
}

func contains16Fast(s []uint16, v uint16) (int, bool) {
	n := len(s) &^ 63
	if !hasAVX2 || n == 0 {
		return 0, false
	}
	return n, containsAVX16(&s[0], n, v)
}

func keys32Fast(d, s []int32) int {
	n := len(s) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	keysAVX32(&d[0], &s[0], n)
	return n
}

func order32Fast(a, b []int32) int {
	n := len(a) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = b[n-1]
	orderAVX32(&a[0], &b[0], n)
	return n
}
