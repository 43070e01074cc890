package stats

import (
	"slices"

	"golang.org/x/sys/cpu"

	"leat/ndarray"
)

// hasAVX2 reports whether the processor can run the routines of kernels_amd64.s.
var hasAVX2 = cpu.X86.HasAVX2

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
func squares32AVX(px *float32, n int, mean float64, sums *[4]float64, counts *uint32)

//go:noescape
func squares64AVX(px *float64, n int, mean float64, sums *[4]float64, bins *uint16)

//go:noescape
func momentsRowsAVX(px *float32, stride, n int, r *[4]floatSums, counts *uint32)

//go:noescape
func squaresRowsAVX(px *float32, stride, n int, means *[4]float64, sums *[4][4]float64, counts *uint32)

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
	return n, r.sums, firstOfZeros(px[:n], T(r.low)), firstOfZeros(px[:n], T(r.high))
}

// sumRowsFast is sumFast for four rows of equal width, stride pixels apart. It counts the first
// half of what it adds up in h, unless that is nil.
func sumRowsFast(px []float32, width, stride int, r *[4]floatSums, h *histogram) (n int) {
	n = width &^ 7
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = px[3*stride+n-1]
	momentsRowsAVX(&px[0], 4*stride, n, r, h.first())
	for k := range r {
		row := px[k*stride:][:n]
		r[k].low = float64(firstOfZeros(row, float32(r[k].low)))
		r[k].high = float64(firstOfZeros(row, float32(r[k].high)))
	}
	return n
}

// squaresRowsFast is squaresFast for four rows of equal width, stride pixels apart. It counts only
// the second half of what it adds up.
func squaresRowsFast(px []float32, width, stride int, means *[4]float64, sums *[4][4]float64, h *histogram) (n int) {
	n = width &^ 7
	if !hasAVX2 || n == 0 {
		return 0
	}
	_ = px[3*stride+n-1]
	squaresRowsAVX(&px[0], 4*stride, n, means, sums, h.first())
	return n
}

// first returns the first of the counters of a wide type, nil without a histogram.
func (h *histogram) first() *uint32 {
	if h == nil {
		return nil
	}
	return &h.counts[:1<<16][0]
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
// many. It counts them in h unless it is nil.
func squaresFast[T ndarray.Real](px []T, mean float64, sums *[4]float64, h *histogram) (n int) {
	n = len(px) &^ 7
	if !hasAVX2 || n == 0 {
		return 0
	}
	switch p := any(px).(type) {
	case []float32:
		squares32AVX(&p[0], n, mean, sums, h.first())
		return n
	case []float64:
		if h == nil {
			squares64AVX(&p[0], n, mean, sums, nil)
			return n
		}
		bins := h.bins[:n]
		squares64AVX(&p[0], n, mean, sums, &bins[0])
		h.count(bins)
		return n
	}
	return 0
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
