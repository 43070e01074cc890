package block

// Plan divides a grid of Width x Height pixels into windows of WindowWidth x WindowHeight, numbered
// row by row from 0. Windows at the right and lower edge end with the grid.
type Plan struct {
	Width, Height             int
	WindowWidth, WindowHeight int
	Overlap                   int // margin in pixels on each side, read but not written
}

// Cols returns the number of windows in a row.
func (p Plan) Cols() int { return ceilDiv(p.Width, p.WindowWidth) }

// Rows returns the number of rows of windows.
func (p Plan) Rows() int { return ceilDiv(p.Height, p.WindowHeight) }

// Count returns the number of windows.
func (p Plan) Count() int { return p.Cols() * p.Rows() }

// Block is one window of a plan.
type Block struct {
	Number   int
	Col, Row int    // position in the grid of blocks
	Window   Window // without margin, in pixels of the plan's grid
}

// At returns block n.
func (p Plan) At(n int) Block {
	b := Block{Number: n, Col: n % p.Cols(), Row: n / p.Cols()}
	b.Window = Window{b.Col * p.WindowWidth, b.Row * p.WindowHeight, p.WindowWidth, p.WindowHeight}.
		Intersect(Window{Width: p.Width, Height: p.Height})
	return b
}

// CountIntersecting returns the number of windows of the plan, margins included, that a rectangle
// overlaps. The rectangle may lie partly or wholly outside the grid.
func (p Plan) CountIntersecting(w Window) int {
	return countIntersecting(w.Col, w.Width, p.WindowWidth, p.Cols(), p.Width, p.Overlap) *
		countIntersecting(w.Row, w.Height, p.WindowHeight, p.Rows(), p.Height, p.Overlap)
}

func countIntersecting(off, n, step, count, length, overlap int) int {
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

func ceilDiv(a, b int) int { return (a + b - 1) / b }
