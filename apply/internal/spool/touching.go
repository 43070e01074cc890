package spool

import "leat/block"

// CountTouching returns the number of windows of the plan, margins included, that a rectangle
// overlaps. The rectangle may lie partly or wholly outside the grid.
func CountTouching(p block.Plan, w block.Window) int {
	return countTouching(w.Col, w.Width, p.WindowWidth, p.Cols(), p.Width, p.Overlap) *
		countTouching(w.Row, w.Height, p.WindowHeight, p.Rows(), p.Height, p.Overlap)
}

func countTouching(off, n, step, count, length, overlap int) int {
	// Window i spans [i*step-overlap, min((i+1)*step, length)+overlap).
	first := 0
	if off-overlap >= step {
		first = (off - overlap) / step
	}
	last := min((off+n-1+overlap)/step, count-1)
	if off+n-1+overlap < 0 {
		return 0
	}
	if off >= length+overlap {
		return 0
	}
	// The last window ends with the grid, so a rectangle beyond it can still touch its margin.
	first = min(first, count-1)
	return max(0, last-first+1)
}
