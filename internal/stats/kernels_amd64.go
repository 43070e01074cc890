package stats

import (
	"slices"

	"golang.org/x/sys/cpu"

	"leat/ndarray"
)

// hasAVX2 reports whether the processor can run the routines of kernels_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2

// floatSums holds the sums of every fourth pixel, and the smallest and largest values of four parts
// of the pixels.
type floatSums struct{ sums, low, high [4]float64 }

// intSums holds sums of values and of squares, and smallest and largest values, of parts of the
// pixels.
type intSums struct {
	sums      [8]int32
	squares   [4]int64
	low, high [16]int16
}

//go:noescape
func moments32AVX(px *float32, n int, r *floatSums)

//go:noescape
func moments64AVX(px *float64, n int, r *floatSums)

//go:noescape
func squares32AVX(px *float32, n int, mean float64, sums *[4]float64, bins *uint16)

//go:noescape
func squares64AVX(px *float64, n int, mean float64, sums *[4]float64, bins *uint16)

//go:noescape
func momentsRowsAVX(px *float32, stride, n int, r *[4]floatSums)

//go:noescape
func squaresRowsAVX(px *float32, stride, n int, means *[4]float64, sums *[4][4]float64, bins *uint16, binsStride int)

//go:noescape
func momentsU8AVX(px *uint8, n int, r *intSums)

//go:noescape
func momentsI8AVX(px *int8, n int, r *intSums)

//go:noescape
func momentsI16AVX(px *int16, n int, r *intSums)

//go:noescape
func momentsU16AVX(px *uint16, n int, r *intSums)

// sumFast adds up the first pixels, and returns how many.
func sumFast[T ndarray.Real](px []T) (n int, sums [4]float64, low, high T) {
	n = len(px) &^ 7
	if !hasAVX2 || n == 0 {
		return 0, sums, low, high
	}
	var r floatSums
	switch p := any(px).(type) {
	case []float32:
		moments32AVX(&p[0], n, &r)
	case []float64:
		moments64AVX(&p[0], n, &r)
	default:
		return 0, sums, low, high
	}
	return n, r.sums, firstOfZeros(px[:n], T(slices.Min(r.low[:]))), firstOfZeros(px[:n], T(slices.Max(r.high[:])))
}

// sumRowsFast is sumFast for four rows of equal width, stride pixels apart.
func sumRowsFast(px []float32, width, stride int) (n int, sums [4][4]float64, low, high [4]float32) {
	n = width &^ 7
	if !hasAVX2 || n == 0 {
		return 0, sums, low, high
	}
	var r [4]floatSums
	_ = px[3*stride+n-1]
	momentsRowsAVX(&px[0], 4*stride, n, &r)
	for k := range r {
		row := px[k*stride:][:n]
		sums[k] = r[k].sums
		low[k] = firstOfZeros(row, float32(slices.Min(r[k].low[:])))
		high[k] = firstOfZeros(row, float32(slices.Max(r[k].high[:])))
	}
	return n, sums, low, high
}

// squaresRowsFast is squaresFast for four rows of equal width, stride pixels apart. Their counters
// follow each other in bins.
func squaresRowsFast(px []float32, width, stride int, means *[4]float64, bins []uint16) (n int, sums [4][4]float64) {
	n = width &^ 7
	if !hasAVX2 || n == 0 {
		return 0, sums
	}
	_ = px[3*stride+n-1]
	var to *uint16
	if bins != nil {
		to = &bins[:4*width][0]
	}
	squaresRowsAVX(&px[0], 4*stride, n, means, &sums, to, 2*width)
	return n, sums
}

// firstOfZeros returns v, or the first zero of px if v is 0: a comparison by < does not prefer
// -0 to 0.
func firstOfZeros[T ndarray.Real](px []T, v T) T {
	if v == 0 {
		return px[slices.Index(px, v)]
	}
	return v
}

// squaresFast adds up the squared differences of the first pixels from the mean, and returns how
// many. It writes their counters to bins, unless that is nil.
func squaresFast[T ndarray.Real](px []T, mean float64, bins []uint16) (n int, sums [4]float64) {
	n = len(px) &^ 7
	if !hasAVX2 || n == 0 {
		return 0, sums
	}
	var to *uint16
	if bins != nil {
		to = &bins[:n][0]
	}
	switch p := any(px).(type) {
	case []float32:
		squares32AVX(&p[0], n, mean, &sums, to)
	case []float64:
		squares64AVX(&p[0], n, mean, &sums, to)
	default:
		return 0, sums
	}
	return n, sums
}

// sumIntsFast adds up the first pixels, and returns how many.
func sumIntsFast[T uint8 | int8 | uint16 | int16](px []T) (n int, low, high T, sum, squares int64) {
	n = len(px) &^ 15
	if !hasAVX2 || n == 0 {
		return 0, 0, 0, 0, 0
	}
	var r intSums
	offset := int64(0) // of the pixels that are added up from those of the tile
	switch p := any(px).(type) {
	case []uint8:
		momentsU8AVX(&p[0], n, &r)
	case []int8:
		momentsI8AVX(&p[0], n, &r)
	case []int16:
		momentsI16AVX(&p[0], n, &r)
	case []uint16:
		momentsU16AVX(&p[0], n, &r)
		offset = 1 << 15
	}
	for _, v := range r.sums {
		sum += int64(v)
	}
	for _, v := range r.squares {
		squares += v
	}
	squares += 2*offset*sum + offset*offset*int64(n)
	sum += offset * int64(n)
	return n, T(int64(slices.Min(r.low[:])) + offset), T(int64(slices.Max(r.high[:])) + offset), sum, squares
}
