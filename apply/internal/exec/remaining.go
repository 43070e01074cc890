package exec

import (
	"iter"

	"leat/apply/internal/spool"
	"leat/block"
)

// remaining are the blocks that are still to be computed.
type remaining struct {
	blocks block.Plan
	before []bool // by block: whether an earlier run computed it; nil if it computed none
	skips  []bool // by block: whether it is not computed at all; nil if all are
	count  int
}

func newRemaining(blocks block.Plan, before, skips []bool) *remaining {
	r := &remaining{blocks: blocks, before: before, skips: skips}
	for n := range blocks.Count() {
		if r.contains(n) {
			r.count++
		}
	}
	return r
}

func (r *remaining) contains(n int) bool {
	return (r.before == nil || !r.before[n]) && (r.skips == nil || !r.skips[n])
}

// all yields the blocks in order.
func (r *remaining) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range r.blocks.Count() {
			if r.contains(n) && !yield(n) {
				return
			}
		}
	}
}

// countTouching returns how many of the blocks touch a rectangle of the grid.
func (r *remaining) countTouching(w block.Window) int {
	if r.before == nil && r.skips == nil {
		return spool.CountTouching(r.blocks, w)
	}
	n := 0
	for range r.touching(w) {
		n++
	}
	return n
}

// touching yields the blocks that, margin included, touch a rectangle of the grid.
func (r *remaining) touching(w block.Window) iter.Seq[int] {
	p := r.blocks
	from := func(at, step, count int) int { return min(max(0, at-p.Overlap)/step, count-1) }
	return func(yield func(int) bool) {
		for row := from(w.Row, p.WindowHeight,
			p.Rows()); row < p.Rows() && row*p.WindowHeight-p.Overlap < w.Row+w.Height; row++ {
			for col := from(w.Col, p.WindowWidth,
				p.Cols()); col < p.Cols() && col*p.WindowWidth-p.Overlap < w.Col+w.Width; col++ {
				n := row*p.Cols() + col
				if r.contains(n) && !p.At(n).Window.Grow(p.Overlap).Intersect(w).Empty() && !yield(n) {
					return
				}
			}
		}
	}
}
