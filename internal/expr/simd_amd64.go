package expr

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the routines of this package.
var hasAVX2 = cpu.X86.HasAVX2

func addAVX32(d, a, b *float32, n int)
func subAVX32(d, a, b *float32, n int)
func mulAVX32(d, a, b *float32, n int)
func divAVX32(d, a, b *float32, n int)
func addAVX64(d, a, b *float64, n int)
func subAVX64(d, a, b *float64, n int)
func mulAVX64(d, a, b *float64, n int)
func divAVX64(d, a, b *float64, n int)
func addKAVX32(d, a *float32, n int, k float32)
func subKAVX32(d, a *float32, n int, k float32)
func kSubAVX32(d, a *float32, n int, k float32)
func mulKAVX32(d, a *float32, n int, k float32)
func divKAVX32(d, a *float32, n int, k float32)
func kDivAVX32(d, a *float32, n int, k float32)
func addKAVX64(d, a *float64, n int, k float64)
func subKAVX64(d, a *float64, n int, k float64)
func kSubAVX64(d, a *float64, n int, k float64)
func mulKAVX64(d, a *float64, n int, k float64)
func divKAVX64(d, a *float64, n int, k float64)
func kDivAVX64(d, a *float64, n int, k float64)
func widenU8AVX(d *float32, a *uint8, n int)
func widenU16AVX(d *float32, a *uint16, n int)
func widenI16AVX(d *float32, a *int16, n int)
func to64AVX(d *float64, a *float32, n int)
func to32AVX(d *float32, a *float64, n int)
func specialAVX32(a *float32, n int, k float32) bool
func containsAVX16(a *uint16, n int, v uint16) bool
func keysAVX32(d, a *int32, n int)
func orderAVX32(d, a *int32, n int)
func orderAVX16(lo, hi, a, b *uint16, n int)

// largest3AVX16 and smallest3AVX16 set n elements of d1, d2 and d3, see firstPixels. n is a
// multiple of step32.
//
//go:noescape
func largest3AVX16(d1, d2, d3 *uint16, rows *[]uint16, count, n int)

//go:noescape
func smallest3AVX16(d1, d2, d3 *uint16, rows *[]uint16, count, n int)
func blendAVX16(d *float32, a, b *uint16, n int, zero int32, fraction float64)

func lessKAVX(d *byte, a *float32, n int, k float32)
func lessEqualKAVX(d *byte, a *float32, n int, k float32)
func greaterKAVX(d *byte, a *float32, n int, k float32)
func greaterEqualKAVX(d *byte, a *float32, n int, k float32)
func equalKAVX(d *byte, a *float32, n int, k float32)
func notEqualKAVX(d *byte, a *float32, n int, k float32)
func lessAVX(d *byte, a, b *float32, n int)
func lessEqualAVX(d *byte, a, b *float32, n int)
func equalAVX(d *byte, a, b *float32, n int)
func notEqualAVX(d *byte, a, b *float32, n int)
func differ16AVX(d *byte, a *uint16, n int, k uint16)
func whereAVX32(d *uint32, c *byte, a, b *uint32, n int)
func patchAVX32(d *uint32, c *byte, n int, v uint32)
func maskKeysAVX(d, counts *int32, c *byte, n int, v int32)
func maskPixelsAVX(d, counts *uint16, c *byte, n int)
func splitKeysAVX(d, counts *int32, c *byte, n int)
func splitPixelsAVX(d, counts *uint16, c *byte, n int)
func roundAVX(d *int32, a *float32, n int, lo, hi float32) (beyond bool)
func narrow8AVX(d *uint8, a *int32, n int)
func narrow16AVX(d *uint16, a *int32, n int)
func hornerAVX(d, x *float32, n int, k *float32, count int)

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

// withRoutines replaces kernels by vector routines if the processor has them.
func withRoutines(k32 *kernels[float32], k64 *kernels[float64]) (*kernels[float32], *kernels[float64]) {
	if hasAVX2 {
		useRoutines(k32, step32, routines[float32]{
			vv: [4]func(d, a, b *float32, n int){addAVX32, subAVX32, mulAVX32, divAVX32},
			vk: [4]func(d, a *float32, n int, k float32){addKAVX32, subKAVX32, mulKAVX32, divKAVX32},
			kv: [4]func(d, a *float32, n int, k float32){addKAVX32, kSubAVX32, mulKAVX32, kDivAVX32}})
		useRoutines(k64, step64, routines[float64]{
			vv: [4]func(d, a, b *float64, n int){addAVX64, subAVX64, mulAVX64, divAVX64},
			vk: [4]func(d, a *float64, n int, k float64){addKAVX64, subKAVX64, mulKAVX64, divKAVX64},
			kv: [4]func(d, a *float64, n int, k float64){addKAVX64, kSubAVX64, mulKAVX64, kDivAVX64}})
		useComparisons(k32)
	}
	return k32, k64
}

// routines holds the vector routines for + - * and /.
type routines[T real] struct {
	vv     [4]func(d, a, b *T, n int)
	vk, kv [4]func(d, a *T, n int, k T)
}

func useRoutines[T real](k *kernels[T], step int, r routines[T]) {
	for i, o := range [4]op{opAdd, opSub, opMul, opDiv} {
		k.vv[o] = wide(step, r.vv[i], k.vv[o])
		k.vk[o] = wideK(step, r.vk[i], k.vk[o])
		k.kv[o] = wideK(step, r.kv[i], k.kv[o])
	}
}

// useComparisons replaces the comparisons by vector routines.
func useComparisons(k *kernels[float32]) {
	for o, f := range map[op]func(d *byte, a *float32, n int, k float32){opLt: lessKAVX, opLe: lessEqualKAVX,
		opGt: greaterKAVX, opGe: greaterEqualKAVX, opEq: equalKAVX, opNe: notEqualKAVX} {
		rest := k.compareK[o]
		k.compareK[o] = func(d []byte, a []float32, k float32) {
			n := len(d) &^ (step32 - 1)
			if n > 0 {
				_ = a[n-1]
				f(&d[0], &a[0], n, k)
			}
			if n < len(d) {
				rest(d[n:], a[n:], k)
			}
		}
	}
	for o, f := range map[op]func(d *byte, a, b *float32, n int){opLt: lessAVX, opLe: lessEqualAVX, opEq: equalAVX,
		opNe: notEqualAVX} {
		rest := k.compare[o]
		k.compare[o] = func(d []byte, a, b []float32) {
			n := len(d) &^ (step32 - 1)
			if n > 0 {
				_, _ = a[n-1], b[n-1]
				f(&d[0], &a[0], &b[0], n)
			}
			if n < len(d) {
				rest(d[n:], a[n:], b[n:])
			}
		}
	}
	k.compare[opGt] = func(d []byte, a, b []float32) { k.compare[opLt](d, b, a) }
	k.compare[opGe] = func(d []byte, a, b []float32) { k.compare[opLe](d, b, a) }
}

// The functions below process whole steps of a chunk and return the number of elements processed.

func whole[D, S any](step int, f func(d *D, s *S, n int), d []D, s []S) int {
	n := len(s) &^ (step - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	f(&d[0], &s[0], n)
	return n
}

func widenU8(d []float32, s []uint8) int    { return whole(step32, widenU8AVX, d, s) }
func widenU16(d []float32, s []uint16) int  { return whole(step32, widenU16AVX, d, s) }
func widenI16(d []float32, s []int16) int   { return whole(step32, widenI16AVX, d, s) }
func to64Fast(d []float64, s []float32) int { return whole(step64, to64AVX, d, s) }
func to32Fast(d []float32, s []float64) int { return whole(step64, to32AVX, d, s) }
func keys32Fast(d, s []int32) int           { return whole(step32, keysAVX32, d, s) }
func order32Fast(a, b []int32) int          { return whole(step32, orderAVX32, a, b) }

func order16Fast(lo, hi, a, b []uint16) int {
	n := len(lo) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _, _ = hi[n-1], a[n-1], b[n-1]
	orderAVX16(&lo[0], &hi[0], &a[0], &b[0], n)
	return n
}

// first3Fast is firstPixels for the first elements, and returns how many.
func first3Fast(d *[3][]uint16, rows [][]uint16, largest bool) int {
	n := len(d[0]) &^ (step32 - 1)
	if !hasAVX2 || n == 0 || len(rows) == 0 {
		return 0
	}
	_, _ = d[1][n-1], d[2][n-1]
	for _, r := range rows {
		_ = r[n-1]
	}
	first := smallest3AVX16
	if largest {
		first = largest3AVX16
	}
	first(&d[0][0], &d[1][0], &d[2][0], &rows[0], len(rows), n)
	return n
}

func blend16Fast(d []float32, a, b []uint16, zero int32, fraction float64) int {
	n := len(d) &^ (step64 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _ = a[n-1], b[n-1]
	blendAVX16(&d[0], &a[0], &b[0], n, zero, fraction)
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

func differ16Fast(d []byte, s []uint16, v uint16) int {
	n := len(s) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = d[n-1]
	differ16AVX(&d[0], &s[0], n, v)
	return n
}

func where32Fast(d []uint32, c []byte, a, b []uint32) int {
	n := len(d) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _, _ = c[n-1], a[n-1], b[n-1]
	whereAVX32(&d[0], &c[0], &a[0], &b[0], n)
	return n
}

func patch32Fast(d []uint32, c []byte, v uint32) int {
	n := len(d) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = c[n-1]
	patchAVX32(&d[0], &c[0], n, v)
	return n
}

func maskKeysFast(d, counts []int32, c []byte) int {
	n := len(d) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _ = counts[n-1], c[n-1]
	maskKeysAVX(&d[0], &counts[0], &c[0], n, invalidKey)
	return n
}

func maskPixelsFast(d, counts []uint16, c []byte) int { return masked(maskPixelsAVX, d, counts, c) }
func splitPixelsFast(d, counts []uint16, c []byte) int {
	return masked(splitPixelsAVX, d, counts, c)
}
func splitKeysFast(d, counts []int32, c []byte) int { return masked(splitKeysAVX, d, counts, c) }

func masked[K int32 | uint16](f func(d, counts *K, c *byte, n int), d, counts []K, c []byte) int {
	n := len(d) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0
	}
	_, _ = counts[n-1], c[n-1]
	f(&d[0], &counts[0], &c[0], n)
	return n
}

func round32Fast(d []int32, a []float32, lo, hi float32) (n int, beyond bool) {
	n = len(a) &^ (step32 - 1)
	if !hasAVX2 || n == 0 {
		return 0, false
	}
	_ = d[n-1]
	return n, roundAVX(&d[0], &a[0], n, lo, hi)
}

func narrow8Fast(d []uint8, s []int32) int   { return whole(step32, narrow8AVX, d, s) }
func narrow16Fast(d []uint16, s []int32) int { return whole(step32, narrow16AVX, d, s) }

func hornerFast(d, x, constants []float32) int {
	n := len(d) &^ 63
	if !hasAVX2 || n == 0 || len(constants) == 0 {
		return 0
	}
	_ = x[n-1]
	hornerAVX(&d[0], &x[0], n, &constants[0], len(constants))
	return n
}
