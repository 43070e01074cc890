package focal

import "math"

// moments are rows of mean values, as unevaluated sums of two floats, and sums of squared
// differences from them. count is nil if all pixels are valid.
type moments struct{ count, mean, low, squares []float64 }

// Std sets dst to the standard deviations of the valid neighbours, divided by their number. A pixel
// without any is invalid.
//
// Partial results combine as in Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm
// for Computing Sample Variances (1979). Means have twice the precision of float64, so a mean that
// is much larger than the deviation costs no digits.
func Std[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	size := float64(f.Size())
	slide(dst, src, f, s, func(b *strip[T]) {
		w := newWindow(momentsAlgebra(s, b.counts == nil), &f, b.columns)
		b.rows(func(first, last int, count []int32, to []T, _ []byte) {
			var result moments
			for i := first; i <= last; i++ {
				at, n := b.at(i), b.columns+2*b.sides
				input := w.input()
				load(input.mean[:n], src, at, b.counts == nil, 0)
				clear(input.low)
				clear(input.squares)
				if b.counts != nil {
					for j, v := range src.Valid[at:][:n] {
						input.count[j] = float64(v)
					}
				}
				result, _ = w.push(src.Row + i)
			}
			deviations(to, result, count, size)
		})
	})
}

// deviations sets dst to the standard deviations of size pixels or, if count is not nil, of count
// pixels each.
func deviations[T Float](dst []T, m moments, count []int32, size float64) {
	for i := deviationsFast(dst, m, count, size); i < len(dst); i++ {
		n := size
		if count != nil {
			n = float64(max(count[i], 1))
		}
		// The std of an infinity is NaN, also of a single one.
		dst[i] = T(math.Sqrt(m.squares[i]/n) + float64(0*m.mean[i]))
	}
}

func momentsAlgebra(s *Scratch, allValid bool) algebra[moments] {
	part := func(r moments, first, columns int) moments {
		last := first + columns
		r.mean, r.low, r.squares = r.mean[first:last], r.low[first:last], r.squares[first:last]
		if r.count != nil {
			r.count = r.count[first:last]
		}
		return r
	}
	return algebra[moments]{
		make: func(columns int) moments {
			r := moments{nil, take[float64](s, columns), take[float64](s, columns), take[float64](s, columns)}
			if !allValid {
				r.count = take[float64](s, columns)
			}
			return r
		},
		part: part,
		copy: func(dst, src moments) {
			copy(dst.mean, src.mean)
			copy(dst.low, src.low)
			copy(dst.squares, src.squares)
			copy(dst.count, src.count)
		},
		combine: func(dst, a, b moments, na, nb int) {
			if allValid {
				combineMoments(dst, a, b, float64(na), float64(nb))
			} else {
				combineSomeMoments(dst, a, b)
			}
		},
	}
}

// combineMoments combines rows all of whose results cover na and nb pixels.
func combineMoments(dst, a, b moments, na, nb float64) {
	n := len(dst.mean)
	am, al, as := a.mean[:n], a.low[:n], a.squares[:n]
	bm, bl, bs := b.mean[:n], b.low[:n], b.squares[:n]
	dm, dl, ds := dst.mean[:n], dst.low[:n], dst.squares[:n]
	share, weight := nb/(na+nb), na*nb/(na+nb)
	for i := combineMomentsFast(dst, a, b, share, weight); i < n; i++ {
		dm[i], dl[i], ds[i] = combineMoment(am[i], al[i], as[i], bm[i], bl[i], bs[i], share, weight)
	}
}

// combineSomeMoments combines rows with counts. It computes as combineMoments does.
func combineSomeMoments(dst, a, b moments) {
	for i := combineMomentsFast(dst, a, b, 0, 0); i < len(dst.mean); i++ {
		na, nb := a.count[i], b.count[i]
		switch {
		case nb == 0:
			dst.mean[i], dst.low[i], dst.squares[i] = a.mean[i], a.low[i], a.squares[i]
		case na == 0:
			dst.mean[i], dst.low[i], dst.squares[i] = b.mean[i], b.low[i], b.squares[i]
		default:
			dst.mean[i], dst.low[i], dst.squares[i] = combineMoment(a.mean[i], a.low[i], a.squares[i],
				b.mean[i], b.low[i], b.squares[i], nb/(na+nb), na*nb/(na+nb))
		}
		dst.count[i] = na + nb
	}
}

// combineMoment combines two results, of which the second covers a share of the pixels.
func combineMoment(am, al, as, bm, bl, bs, share, weight float64) (mean, low, squares float64) {
	d := (bm - am) + (bl - al)
	step := float64(d * share)
	mean = am + step
	back := mean - am
	low = al + ((am - (mean - back)) + (step - back))
	return mean, low, as + bs + float64(float64(d*d)*weight)
}
