package focal

// add sets dst to the sums of a and b.
func add[A float64 | int32](dst, a, b []A, _, _ int) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := addFast(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] + b[i]
	}
}

// smaller sets dst to the minima of a and b, which contain no NaN.
func smaller[A Float](dst, a, b []A, _, _ int) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := smallerFast(dst, a, b); i < len(dst); i++ {
		dst[i] = min(a[i], b[i])
	}
}

// larger sets dst to the maxima of a and b, which contain no NaN.
func larger[A Float](dst, a, b []A, _, _ int) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := largerFast(dst, a, b); i < len(dst); i++ {
		dst[i] = max(a[i], b[i])
	}
}

// load copies pixels from index at on, with another value for invalid ones.
func load[T, A Float](dst []A, src *Plane[T], at int, allValid bool, invalid A) {
	from := src.Values[at:][:len(dst)]
	if allValid {
		if d, same := any(dst).([]T); same {
			copy(d, from)
			return
		}
		for i := loadFast(dst, from, nil, invalid); i < len(dst); i++ {
			dst[i] = A(from[i])
		}
		return
	}
	valid := src.Valid[at:][:len(dst)]
	for i := loadFast(dst, from, valid, invalid); i < len(dst); i++ {
		v := A(from[i])
		if valid[i] == 0 {
			v = invalid
		}
		dst[i] = v
	}
}

// loadCounts sets dst to 1 for valid pixels, else to 0.
func loadCounts(dst []int32, valid []byte) {
	valid = valid[:len(dst)]
	for i := countsFast(dst, valid); i < len(dst); i++ {
		dst[i] = int32(valid[i])
	}
}

// findValid sets valid to 1 where count is positive, else to 0.
func findValid(valid []byte, count []int32) {
	count = count[:len(valid)]
	for i := anyFast(valid, count); i < len(valid); i++ {
		valid[i] = byte(min(count[i], 1))
	}
}

// means sets dst to means of size pixels or, if count is not nil, of count pixels each. The mean of
// no pixels is 0.
func means[T Float](dst []T, sum []float64, count []int32, size float64) {
	sum = sum[:len(dst)]
	i := meansFast(dst, sum, count, size)
	if count == nil {
		for ; i < len(dst); i++ {
			dst[i] = T(sum[i]/size + 0) // not -0
		}
		return
	}
	count = count[:len(dst)]
	for ; i < len(dst); i++ {
		dst[i] = T(sum[i]/float64(max(count[i], 1)) + 0)
	}
}
