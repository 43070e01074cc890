package stats

import "leat/ndarray"

// floatSums holds the sums of every fourth pixel, and the smallest and the largest value.
type floatSums struct {
	sums      [4]float64
	low, high float64
}

// summarize returns the moments of at most chunk pixels without nodata, and counts them in h unless
// it is nil. Total stays 0. Vector routines and Go loops give the same bits: both add up every
// fourth pixel.
func summarize[T ndarray.Real](px []T, h *histogram) Moments {
	switch p := any(px).(type) {
	case []uint8:
		return summarizeInts(p, h, 0)
	case []int8:
		return summarizeInts(p, h, 1<<7)
	case []uint16:
		return summarizeInts(p, h, 0)
	case []int16:
		return summarizeInts(p, h, 1<<15)
	}
	if len(px) == 0 {
		return Moments{}
	}
	sum, lo, hi := sumOf(px)
	mean := sum / float64(len(px))
	if !isFinite(mean) { // some are NaN or infinite, or the sum overflows
		var kept [chunk]T
		n, nans := finite(kept[:], px)
		if n < len(px) {
			m := summarize(kept[:n], h)
			m.NaN, m.Infinite = int64(nans), int64(len(px)-n-nans)
			return m
		}
		mean = 0
		for _, v := range px {
			mean += float64(v) / float64(len(px))
		}
	}
	return secondPass(px, mean, lo, hi, h)
}

// secondPass is summarize for finite pixels whose mean, smallest and largest value are known.
func secondPass[T ndarray.Real](px []T, mean float64, lo, hi T, h *histogram) Moments {
	if h != nil {
		h.touchFloats(float32(lo), float32(hi))
	}
	return Moments{Valid: int64(len(px)), Min: float64(lo), Max: float64(hi), Mean: mean, M2: squaresOf(px, mean, h)}
}

// summarizeRows is summarize for four rows of equal width, stride pixels apart, and adds them to m.
// Vector routines add up all of them at the same time, since one sum would wait for its last
// addition. It returns false, and adds nothing, if they can't, or if rows begin or end with pixels
// that are not finite, as areas without data do.
func summarizeRows(m *Moments, px []float32, width, stride int, h *histogram) bool {
	for k := range 4 {
		if row := px[k*stride:][:width]; !isFinite(row[0]) || !isFinite(row[width-1]) {
			return false
		}
	}
	var r [4]floatSums
	i := sumRowsFast(px, width, stride, &r, h)
	if i == 0 {
		return false
	}
	var means [4]float64
	for k := range r {
		sum, lo, hi := sumRest(px[k*stride:][:width], i, &r[k].sums, float32(r[k].low), float32(r[k].high))
		r[k].low, r[k].high = float64(lo), float64(hi)
		means[k] = sum / float64(width)
	}
	var squares [4][4]float64
	squaresRowsFast(px, width, stride, &means, &squares, h)
	for k := range r {
		row := px[k*stride:][:width]
		if !isFinite(means[k]) { // summarize leaves out what is not finite
			h.uncount(row[:i])
			m.Merge(summarize(row, h))
			continue
		}
		if h != nil {
			h.touchFloats(float32(r[k].low), float32(r[k].high))
		}
		m.Merge(Moments{Valid: int64(width), Min: r[k].low, Max: r[k].high, Mean: means[k],
			M2: squaresRest(row, i, &squares[k], means[k], h)})
	}
	return true
}

// isFinite reports whether v is neither NaN nor infinite.
func isFinite[T float32 | float64](v T) bool { return v-v == 0 }

// sumOf returns the sum of pixels, the smallest and the largest one.
func sumOf[T ndarray.Real](px []T) (sum float64, lo, hi T) {
	i, s, lo, hi := sumFast(px)
	return sumRest(px, i, &s, lo, hi)
}

// sumRest is sumOf after the first i pixels, a multiple of 4, have been added up to s.
func sumRest[T ndarray.Real](px []T, i int, s *[4]float64, lo, hi T) (float64, T, T) {
	if i == 0 {
		lo, hi = px[0], px[0]
	}
	s0, s1, s2, s3 := s[0], s[1], s[2], s[3]
	for ; i+4 <= len(px); i += 4 {
		q := px[i : i+4 : i+4]
		a, b, c, d := q[0], q[1], q[2], q[3]
		s0 += float64(a)
		s1 += float64(b)
		s2 += float64(c)
		s3 += float64(d)
		if a < lo {
			lo = a
		}
		if a > hi {
			hi = a
		}
		if b < lo {
			lo = b
		}
		if b > hi {
			hi = b
		}
		if c < lo {
			lo = c
		}
		if c > hi {
			hi = c
		}
		if d < lo {
			lo = d
		}
		if d > hi {
			hi = d
		}
	}
	for ; i < len(px); i++ {
		s0 += float64(px[i])
		lo, hi = min(lo, px[i]), max(hi, px[i])
	}
	return s0 + s1 + s2 + s3, lo, hi
}

// squaresOf returns the sum of the squared differences from the mean, and counts the pixels in h
// unless it is nil.
func squaresOf[T ndarray.Real](px []T, mean float64, h *histogram) float64 {
	var s [4]float64
	i := squaresFast(px, mean, &s, h)
	return squaresRest(px, i, &s, mean, h)
}

// squaresRest is squaresOf after the first i pixels, a multiple of 4, have been counted and added
// up to s.
func squaresRest[T ndarray.Real](px []T, i int, s *[4]float64, mean float64, h *histogram) float64 {
	if h != nil && i < len(px) {
		bins := h.bins[:len(px)-i]
		for k, v := range px[i:] {
			bins[k] = leadingBits(float32(v))
		}
		h.count(bins)
	}
	s0, s1, s2, s3 := s[0], s[1], s[2], s[3]
	for ; i+4 <= len(px); i += 4 {
		q := px[i : i+4 : i+4]
		a, b, c, d := float64(q[0])-mean, float64(q[1])-mean, float64(q[2])-mean, float64(q[3])-mean
		s0 += float64(a * a)
		s1 += float64(b * b)
		s2 += float64(c * c)
		s3 += float64(d * d)
	}
	for ; i < len(px); i++ {
		d := float64(px[i]) - mean
		s0 += float64(d * d)
	}
	return s0 + s1 + s2 + s3
}

// finite packs the finite pixels into kept and returns their number and the number of NaN.
func finite[T ndarray.Real](kept, px []T) (n, nans int) {
	for _, v := range px {
		switch {
		case v != v:
			nans++
		case v-v == 0:
			kept[n] = v
			n++
		}
	}
	return n, nans
}

// summarizeInts is summarize for 8- and 16-bit integers. It sums chunks exactly: the sum is below
// 2^26, the sum of squares below 2^42. offset maps the smallest value of the type to counter 0.
func summarizeInts[T uint8 | int8 | uint16 | int16](px []T, h *histogram, offset int) Moments {
	if len(px) == 0 {
		return Moments{}
	}
	i, lo, hi, sum, squares := sumIntsFast(px)
	if i == 0 {
		lo, hi = px[0], px[0]
	}
	for _, v := range px[i:] {
		lo, hi = min(lo, v), max(hi, v)
		sum += int64(v)
		squares += int64(v) * int64(v)
	}
	if h != nil {
		h.touch(int(lo)+offset, int(hi)+offset)
		countInts(h, px)
	}
	n := int64(len(px))
	return Moments{Valid: n, Min: float64(lo), Max: float64(hi),
		Mean: float64(sum) / float64(n), M2: float64(n*squares-sum*sum) / float64(n)}
}
