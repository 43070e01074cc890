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

func ceilDiv(a, b int) int { return (a + b - 1) / b }
