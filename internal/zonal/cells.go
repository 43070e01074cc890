package zonal

import (
	"math"

	"leat/block"
)

// Cells records in which parts of a raster polygons may have pixels, as a bit for each square cell.
// It must not be used concurrently while polygons are added.
type Cells struct {
	shift      int // a cell has a side of 2^shift pixels
	cols, rows int
	bits       []uint64 // row by row
	stride     int      // words in a row
	rasterizer Rasterizer
	polygon    Polygon
	mask       Mask
}

const (
	leastCellShift = 6
	maxCells       = 1 << 24
	// A polygon that reaches further than distant pixels from the origin sets all cells of its
	// bounding box: rounding could misplace its edges.
	distant = 1 << 44
)

// NewCells returns cells without polygons for a raster of width x height pixels.
func NewCells(width, height int) *Cells {
	c := &Cells{shift: leastCellShift}
	for {
		c.cols, c.rows = (width-1)>>c.shift+1, (height-1)>>c.shift+1
		if c.stride = (c.cols + 63) / 64; c.stride*64 <= maxCells/c.rows {
			break
		}
		c.shift++
	}
	c.bits = make([]uint64, c.rows*c.stride)
	return c
}

// Bytes returns the size of the cells in memory.
func (c *Cells) Bytes() int64 { return 8 * int64(len(c.bits)) }

// Add records a polygon whose pixels lie in window w of the raster, by any rule.
func (c *Cells) Add(p *Polygon, w block.Window) {
	if w.Empty() {
		return
	}
	cells := c.window(w)
	if b, ok := p.Bounds(); cells.Pixels() <= 4 || !ok || max(-b.MinX, -b.MinY, b.MaxX, b.MaxY) > distant {
		for row := range cells.Height {
			c.set(cells.Row+row, cells.Col, cells.Width)
		}
		return
	}
	// A cell is set if the polygon covers its centre or touches its interior. The sides of cells
	// are powers of two, so edges are rounded as they are for pixels, except that the smallest
	// numbers become 0. For these, the polygon is also moved by a millionth of a cell in four
	// directions.
	q := &c.polygon
	q.XY, q.Rings, q.Parts = q.XY[:0], p.Rings, p.Parts
	for _, v := range p.XY {
		q.XY = append(q.XY, math.Ldexp(v, -c.shift))
	}
	const e = 1e-6
	for _, move := range [][2]float64{{0, 0}, {-e, -e}, {2 * e, 0}, {0, 2 * e}, {-2 * e, 0}} {
		for i := 0; i+1 < len(q.XY); i += 2 {
			q.XY[i] += move[0]
			q.XY[i+1] += move[1]
		}
		c.rasterizer.Cover(q, cells, ByTouch, &c.mask)
		for _, run := range c.mask.Runs {
			c.set(cells.Row+run.Row, cells.Col+run.Col, run.Len)
		}
	}
}

// Overlap reports whether a polygon may have pixels in window w. It may return true for a window
// without pixels, but never false for one that has some.
func (c *Cells) Overlap(w block.Window) bool {
	cells := c.window(w)
	for row := range cells.Height {
		bits := c.bits[(cells.Row+row)*c.stride:]
		for col := cells.Col; col < cells.Col+cells.Width; col++ {
			if bits[col/64]>>(col%64)&1 == 1 {
				return true
			}
		}
	}
	return false
}

// window returns the cells of a window of pixels.
func (c *Cells) window(w block.Window) block.Window {
	c0, r0 := w.Col>>c.shift, w.Row>>c.shift
	c1, r1 := (w.Col+w.Width-1)>>c.shift+1, (w.Row+w.Height-1)>>c.shift+1
	return block.Window{Col: c0, Row: r0, Width: c1 - c0, Height: r1 - r0}.
		Intersect(block.Window{Width: c.cols, Height: c.rows})
}

func (c *Cells) set(row, col, n int) {
	bits := c.bits[row*c.stride : (row+1)*c.stride]
	for i := col; i < col+n; i++ {
		bits[i/64] |= 1 << (i % 64)
	}
}
