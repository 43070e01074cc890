package focal

import "slices"

// Median sets dst to the medians of the valid neighbours: of an even number the mean of the middle
// two. A pixel without any is invalid.
func Median[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	ranked(dst, src, f, s, func(sorted []T) T {
		n := len(sorted)
		a, b := sorted[(n-1)/2], sorted[n/2]
		if a == b {
			return a
		}
		return T((float64(a) + float64(b)) / 2)
	})
}

// Mode sets dst to the most frequent values of the valid neighbours, the smallest of equally
// frequent ones. A pixel without any is invalid.
func Mode[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	ranked(dst, src, f, s, func(sorted []T) T {
		mode, most := sorted[0], 0
		for i := 0; i < len(sorted); {
			n := 1
			for i+n < len(sorted) && sorted[i+n] == sorted[i] {
				n++
			}
			if n > most {
				mode, most = sorted[i], n
			}
			i += n
		}
		return mode
	})
}

// ranked sets dst to a function of the sorted valid neighbours.
func ranked[T Float](dst, src *Plane[T], f Footprint, s *Scratch, of func([]T) T) {
	margin, sides := f.Margin()
	row, col := offset(dst, src, margin, sides)
	s.reset()
	m := &mask[T]{dst: dst}
	values := take[T](s, f.Size())
	for r := range dst.Rows {
		for c := range dst.Columns {
			n := 0
			for i, h := range f.half {
				at := (row+r+i-margin)*src.Columns + col + c - h
				for j, v := range src.Values[at : at+2*h+1] {
					if src.Valid == nil || src.Valid[at+j] != 0 {
						values[n] = v
						n++
					}
				}
			}
			if n == 0 {
				m.row(r, c, 1)[0] = 0
				continue
			}
			slices.Sort(values[:n])
			dst.Values[r*dst.Columns+c] = of(values[:n])
		}
	}
	m.finish()
}
