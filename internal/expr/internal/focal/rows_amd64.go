package focal

// rowStep divides the number of pixels that the routines of rows_amd64.s take.
const rowStep = 8

func addAVX64(d, a, b *float64, n int)
func addCountsAVX(d, a, b *int32, n int)
func smallerAVX32(d, a, b *float32, n int)
func smallerAVX64(d, a, b *float64, n int)
func largerAVX32(d, a, b *float32, n int)
func largerAVX64(d, a, b *float64, n int)
func widenAVX(d *float64, a *float32, n int)
func widenValidAVX(d *float64, a *float32, valid *byte, n int, invalid float64)
func copyValidAVX(d, a *float32, valid *byte, n int, invalid float32)
func countsAVX(d *int32, valid *byte, n int)
func anyAVX(valid *byte, count *int32, n int)
func meansAVX(d *float32, sum *float64, n int, size float64)
func meansOfAVX(d *float32, sum *float64, count *int32, n int)
func compareAVX32(buffer *float32, c *comparison, count, columns int)
func compareAVX64(buffer *float64, c *comparison, count, columns int)

// The functions below compute as many pixels as their routines can, and return their number.

func steps(n int) int {
	if !hasAVX2 {
		return 0
	}
	return n &^ (rowStep - 1)
}

func addFast[A float64 | int32](dst, a, b []A) int {
	n := steps(len(dst))
	if n == 0 {
		return 0
	}
	a, b = a[:n], b[:n]
	switch d := any(dst).(type) {
	case []float64:
		addAVX64(&d[0], &any(a).([]float64)[0], &any(b).([]float64)[0], n)
	case []int32:
		addCountsAVX(&d[0], &any(a).([]int32)[0], &any(b).([]int32)[0], n)
	}
	return n
}

func smallerFast[A Float](dst, a, b []A) int {
	return chooseFast(dst, a, b, smallerAVX32, smallerAVX64)
}

func largerFast[A Float](dst, a, b []A) int {
	return chooseFast(dst, a, b, largerAVX32, largerAVX64)
}

func chooseFast[A Float](dst, a, b []A, narrow func(d, a, b *float32, n int), wide func(d, a, b *float64, n int)) int {
	n := steps(len(dst))
	if n == 0 {
		return 0
	}
	a, b = a[:n], b[:n]
	switch d := any(dst).(type) {
	case []float32:
		narrow(&d[0], &any(a).([]float32)[0], &any(b).([]float32)[0], n)
	case []float64:
		wide(&d[0], &any(a).([]float64)[0], &any(b).([]float64)[0], n)
	}
	return n
}

func loadFast[T, A Float](dst []A, from []T, valid []byte, invalid A) int {
	f, ok := any(from).([]float32)
	n := steps(len(dst))
	if !ok || n == 0 {
		return 0
	}
	_ = f[n-1]
	d64, wide := any(dst).([]float64)
	switch {
	case wide && valid == nil:
		widenAVX(&d64[0], &f[0], n)
	case wide:
		_ = valid[n-1]
		widenValidAVX(&d64[0], &f[0], &valid[0], n, float64(invalid))
	case valid == nil:
		return 0
	default:
		_ = valid[n-1]
		copyValidAVX(&any(dst).([]float32)[0], &f[0], &valid[0], n, float32(invalid))
	}
	return n
}

func countsFast(dst []int32, valid []byte) int {
	n := steps(len(dst))
	if n > 0 {
		_ = valid[n-1]
		countsAVX(&dst[0], &valid[0], n)
	}
	return n
}

func anyFast(valid []byte, count []int32) int {
	n := steps(len(valid))
	if n > 0 {
		_ = count[n-1]
		anyAVX(&valid[0], &count[0], n)
	}
	return n
}

// meansFast computes means of size pixels or, if count is not nil, of count pixels.
func meansFast[T Float](to []T, sum []float64, count []int32, size float64) int {
	d, ok := any(to).([]float32)
	n := steps(len(d))
	if !ok || n == 0 {
		return 0
	}
	_ = sum[n-1]
	if count == nil {
		meansAVX(&d[0], &sum[0], n, size)
	} else {
		_ = count[n-1]
		meansOfAVX(&d[0], &sum[0], &count[0], n)
	}
	return n
}

// hasComparisons reports whether there are routines for performFast.
func hasComparisons() bool { return hasAVX2 }

// performFast performs all comparisons. It reports whether there is a routine for that.
func performFast[T Float](buffer []T, comparisons []comparison, columns int) bool {
	if !hasAVX2 || len(comparisons) == 0 || columns == 0 {
		return false
	}
	switch b := any(buffer).(type) {
	case []float32:
		compareAVX32(&b[0], &comparisons[0], len(comparisons), columns)
	case []float64:
		compareAVX64(&b[0], &comparisons[0], len(comparisons), columns)
	}
	return true
}
