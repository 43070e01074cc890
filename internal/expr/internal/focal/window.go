package focal

import "math/bits"

// algebra describes rows of partial results of type R and how they combine.
type algebra[R any] struct {
	make func(columns int) R
	part func(r R, first, columns int) R
	copy func(dst, src R)
	// combine sets dst to the results of the pixels of a and b together. If all pixels are valid,
	// each result of a covers na pixels, of b nb. dst can be a or b.
	combine func(dst, a, b R, na, nb int)
	overlap bool // a pixel may count twice
}

// window slides a footprint over rows from top to bottom.
type window[R any] struct {
	algebra[R]
	f       *Footprint
	columns int

	levels []R   // levels[k] combines 2**k pixels of a row from each column on; levels[0] is the row
	across R     // a disk's row, combined along the columns
	above  []int // the numbers of a disk's pixels above its rows

	// Of a square: the rows of a segment, combined along the columns, or, in the rows not yet
	// replaced, the combined rows from there to the end of the segment before. Segments are as high
	// as the window and begin at absolute multiples of its height. Of a disk: unfinished results.
	ring         []R
	prefix       R // rows of the segment up to the last one
	prefixHeight int
	result       R
	seen         int
}

func newWindow[R any](a algebra[R], f *Footprint, columns int) *window[R] {
	w := &window[R]{algebra: a, f: f, columns: columns}
	for k := range bits.Len(uint(2*f.widest + 1)) {
		w.levels = append(w.levels, a.make(columns+2*f.widest-1<<k+1))
	}
	for range f.half {
		w.ring = append(w.ring, a.make(columns))
	}
	if f.square {
		w.prefix, w.result = a.make(columns), a.make(columns)
	} else {
		w.across = a.make(columns)
		n := 0
		for _, h := range f.half {
			w.above = append(w.above, n)
			n += 2*h + 1
		}
	}
	return w
}

// input returns the memory of the next row, with the margin on both sides.
func (w *window[R]) input() R { return w.levels[0] }

// push adds the row in input, with its absolute number. Once the window is complete, it returns the
// results of the row in its middle, until the next call.
func (w *window[R]) push(row int) (result R, ok bool) {
	for k := 1; k < len(w.levels); k++ {
		half := 1 << (k - 1)
		n := w.columns + 2*w.f.widest - 2*half + 1
		w.combine(w.levels[k], w.part(w.levels[k-1], 0, n), w.part(w.levels[k-1], half, n), half, half)
	}
	w.seen++
	if w.f.square {
		result = w.pushSquare(row)
	} else {
		result = w.pushDisk(row)
	}
	return result, w.seen >= len(w.f.half)
}

func (w *window[R]) pushSquare(row int) R {
	height := len(w.f.half)
	width := height
	at := modulo(row, height)
	w.sweep(w.ring[at], w.f.widest)
	if at == 0 || w.seen == 1 {
		w.copy(w.prefix, w.ring[at])
		w.prefixHeight = 1
	} else {
		w.combine(w.prefix, w.prefix, w.ring[at], w.prefixHeight*width, width)
		w.prefixHeight++
	}
	if at < height-1 {
		if w.seen >= height {
			w.combine(w.result, w.ring[at+1], w.prefix, (height-at-1)*width, (at+1)*width)
		}
		return w.result
	}
	for i := height - 2; i >= 0 && i > height-1-w.seen; i-- {
		w.combine(w.ring[i], w.ring[i], w.ring[i+1], width, (height-1-i)*width)
	}
	return w.prefix
}

func (w *window[R]) pushDisk(row int) R {
	height := len(w.f.half)
	last := -1
	// The halves grow to the middle and shrink again, symmetrically.
	for i := range height/2 + 1 {
		h := w.f.half[i]
		if h != last {
			w.sweep(w.across, h)
			last = h
		}
		w.addToDisk(row, i)
		if i != height-1-i {
			w.addToDisk(row, height-1-i)
		}
	}
	return w.ring[modulo(row-height/2, height)]
}

// addToDisk adds the combined row to the result of which it is row i of the footprint.
func (w *window[R]) addToDisk(row, i int) {
	height := len(w.f.half)
	to := w.ring[modulo(row-i+height/2, height)]
	if i == 0 {
		w.copy(to, w.across)
		return
	}
	w.combine(to, to, w.across, w.above[i], 2*w.f.half[i]+1)
}

// sweep combines, for each column, the pixels of the row up to half columns away.
func (w *window[R]) sweep(dst R, half int) {
	n, first, width := w.columns, w.f.widest-half, 2*half+1
	if width == 1 {
		w.copy(dst, w.part(w.levels[0], first, n))
		return
	}
	if w.overlap {
		k := bits.Len(uint(width)) - 1
		w.combine(dst, w.part(w.levels[k], first, n), w.part(w.levels[k], first+width-1<<k, n), 1<<k, 1<<k)
		return
	}
	sum := w.part(w.levels[0], first, n)
	for k, done := 1, 1; done < width; k++ {
		if width>>k&1 == 1 {
			w.combine(dst, sum, w.part(w.levels[k], first+done, n), done, 1<<k)
			sum = dst
			done += 1 << k
		}
	}
}

func modulo(a, n int) int {
	m := a % n
	if m < 0 {
		m += n
	}
	return m
}

// vectors returns the algebra of rows of one value per pixel.
func vectors[A float64 | float32 | int32](s *Scratch, combine func(dst, a, b []A, na, nb int),
	overlap bool) algebra[[]A] {
	return algebra[[]A]{
		make:    func(columns int) []A { return take[A](s, columns) },
		part:    func(r []A, first, columns int) []A { return r[first : first+columns] },
		copy:    func(dst, src []A) { copy(dst, src) },
		combine: combine,
		overlap: overlap,
	}
}
