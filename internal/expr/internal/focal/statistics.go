package focal

import "math"

// Sum sets dst to the sums of the valid neighbours, added in float64. A pixel without any is
// invalid.
func Sum[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	sums(dst, src, f, s, func(to []T, sum []float64, _ []int32) { means(to, sum, nil, 1) })
}

// Mean sets dst to the means of the valid neighbours, added in float64. A pixel without any is
// invalid.
func Mean[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	size := float64(f.Size())
	sums(dst, src, f, s, func(to []T, sum []float64, count []int32) { means(to, sum, count, size) })
}

// Count sets dst to the numbers of valid neighbours. All pixels are valid.
func Count[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	size := T(f.Size())
	slide(dst, src, f, s, func(b *strip[T]) {
		if b.counts == nil {
			b.rows(func(_, _ int, _ []int32, to []T, _ []byte) {
				for i := range to {
					to[i] = size
				}
			})
			return
		}
		b.rows(func(_, _ int, count []int32, to []T, valid []byte) {
			for i := range to {
				to[i] = T(count[i])
			}
			for i := range valid {
				valid[i] = 1
			}
		})
	})
}

// Min sets dst to the smallest of the valid neighbours. A pixel without any is invalid.
func Min[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	slide(dst, src, f, s, func(b *strip[T]) {
		w := newWindow(vectors[T](s, smaller[T], true), &f, b.columns)
		b.rows(func(first, last int, _ []int32, to []T, _ []byte) {
			copy(to, pushRows(b, w, first, last, math.Inf(1)))
		})
	})
}

// Max sets dst to the largest of the valid neighbours. A pixel without any is invalid.
func Max[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	slide(dst, src, f, s, func(b *strip[T]) {
		w := newWindow(vectors[T](s, larger[T], true), &f, b.columns)
		b.rows(func(first, last int, _ []int32, to []T, _ []byte) {
			copy(to, pushRows(b, w, first, last, math.Inf(-1)))
		})
	})
}

// Range sets dst to the largest minus the smallest of the valid neighbours. A pixel without any is
// invalid.
func Range[T Float](dst, src *Plane[T], f Footprint, s *Scratch) {
	slide(dst, src, f, s, func(b *strip[T]) {
		low := newWindow(vectors[T](s, smaller[T], true), &f, b.columns)
		high := newWindow(vectors[T](s, larger[T], true), &f, b.columns)
		b.rows(func(first, last int, _ []int32, to []T, _ []byte) {
			smallest := pushRows(b, low, first, last, math.Inf(1))[:len(to)]
			largest := pushRows(b, high, first, last, math.Inf(-1))[:len(to)]
			for i := range to {
				to[i] = largest[i] - smallest[i]
			}
		})
	})
}

// sums calls finish with each row of dst, the sums and the numbers of the valid neighbours, or nil
// if all are valid.
func sums[T Float](dst, src *Plane[T], f Footprint, s *Scratch, finish func(to []T, sum []float64, count []int32)) {
	slide(dst, src, f, s, func(b *strip[T]) {
		w := newWindow(vectors[float64](s, add[float64], false), &f, b.columns)
		b.rows(func(first, last int, count []int32, to []T, _ []byte) {
			finish(to, pushRows(b, w, first, last, 0), count)
		})
	})
}

// strip is some columns of a block.
type strip[T Float] struct {
	dst, src      *Plane[T]
	row, col      int // of the strip in src
	first         int // column of dst
	columns       int
	margin, sides int
	counts        *window[[]int32] // nil if all neighbours are valid
	mask          *mask[T]
}

// slide calls compute for each strip of a block.
func slide[T Float](dst, src *Plane[T], f Footprint, s *Scratch, compute func(*strip[T])) {
	margin, sides := f.Margin()
	row, col := offset(dst, src, margin, sides)
	m := &mask[T]{dst: dst}
	for first := 0; first < dst.Columns; first += stripColumns {
		s.reset()
		b := &strip[T]{dst: dst, src: src, row: row, col: col + first, first: first,
			columns: min(stripColumns, dst.Columns-first), margin: margin, sides: sides, mask: m}
		if !src.allValid(row-margin, b.col-sides, dst.Rows+2*margin, b.columns+2*sides) {
			b.counts = newWindow(vectors[int32](s, add[int32], false), &f, b.columns)
		}
		compute(b)
	}
	m.finish()
}

// rows calls compute for each row of the strip, with the rows of src to add to windows, the numbers
// of valid neighbours, and the row of dst. count and valid are nil if all neighbours are valid.
func (b *strip[T]) rows(compute func(first, last int, count []int32, to []T, valid []byte)) {
	next := b.row - b.margin
	for r := range b.dst.Rows {
		last := b.row + r + b.margin
		to := b.dst.Values[r*b.dst.Columns+b.first:][:b.columns]
		var count []int32
		var valid []byte
		if b.counts != nil {
			for i := next; i <= last; i++ {
				from := b.src.Valid[b.at(i):][:b.columns+2*b.sides]
				loadCounts(b.counts.input()[:len(from)], from)
				count, _ = b.counts.push(b.src.Row + i)
			}
			valid = b.mask.row(r, b.first, b.columns)
			findValid(valid, count)
		}
		compute(next, last, count, to, valid)
		next = last + 1
	}
}

// at returns the index of the first pixel of the strip, with its margin, in a row of src.
func (b *strip[T]) at(row int) int { return row*b.src.Columns + b.col - b.sides }

// pushRows adds rows of src to a window, with another value for invalid pixels, and returns the
// last result.
func pushRows[T, A Float](b *strip[T], w *window[[]A], first, last int, invalid float64) []A {
	var result []A
	for i := first; i <= last; i++ {
		at, n := b.at(i), b.columns+2*b.sides
		load(w.input()[:n], b.src, at, b.counts == nil, A(invalid))
		result, _ = w.push(b.src.Row + i)
	}
	return result
}
