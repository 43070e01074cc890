// Package focal computes focal statistics, convolutions and terrain attributes of rasters, block by
// block.
//
// A caller reads a block with a margin into a Plane, src, and passes the block itself as dst. A
// result depends only on the neighbourhood of its pixel and on the pixel's absolute position, so
// any division of a raster into blocks gives the same bits. All processors give the same bits too.
//
// The sliding windows follow van Herk, A fast algorithm for local minimum and maximum filters
// (1992), along columns and doubling along rows: the cost of a pixel hardly grows with the window.
package focal

import (
	"bytes"
	"fmt"
	"math"
)

// Float is the type of a plane's values.
type Float interface{ float32 | float64 }

// Plane is a rectangle of a raster, row after row. Row and Col are the absolute position of its
// first pixel.
type Plane[T Float] struct {
	Values        []T
	Valid         []byte // 1 where a pixel is valid, else 0; nil if all are. A valid pixel is not NaN.
	Rows, Columns int
	Row, Col      int
}

// Footprint is the set of neighbours that a focal function reads: for each row, the columns up to a
// distance from the centre.
type Footprint struct {
	half   []int // by row, from the top
	widest int
	square bool
}

// Square returns the footprint of side x side pixels. It panics unless side is odd and positive.
func Square(side int) Footprint {
	if side < 1 || side%2 == 0 {
		panic(fmt.Sprintf("focal: square of side %d", side))
	}
	half := make([]int, side)
	for i := range half {
		half[i] = side / 2
	}
	return Footprint{half, side / 2, true}
}

// MaxRadius is the largest radius of a disk, in pixels.
const MaxRadius = 1 << 14

// Disk returns the footprint of the pixels whose centres lie at most radius pixels from the centre.
func Disk(radius float64) (Footprint, error) {
	if !(radius >= 0 && radius <= MaxRadius) {
		return Footprint{}, fmt.Errorf("disk of radius %v: expected a number from 0 to %d", radius, MaxRadius)
	}
	m := int(radius)
	f := Footprint{make([]int, 2*m+1), m, m == 0}
	for i := range f.half {
		y := float64(i - m)
		x := int(math.Sqrt(float64(radius*radius) - float64(y*y)))
		for inside(float64(x+1), y, radius) {
			x++
		}
		for x > 0 && !inside(float64(x), y, radius) {
			x--
		}
		f.half[i] = x
	}
	return f, nil
}

func inside(x, y, radius float64) bool { return float64(x*x)+float64(y*y) <= float64(radius*radius) }

// Margin returns the rows above and below and the columns to the left and right that a result
// depends on.
func (f Footprint) Margin() (rows, columns int) { return len(f.half) / 2, f.widest }

// Size returns the number of pixels.
func (f Footprint) Size() int {
	n := 0
	for _, h := range f.half {
		n += 2*h + 1
	}
	return n
}

// offset returns the position of dst in src. It panics if src lacks part of the margin.
func offset[T Float](dst, src *Plane[T], rows, columns int) (row, col int) {
	row, col = dst.Row-src.Row, dst.Col-src.Col
	if row < rows || col < columns || row+dst.Rows+rows > src.Rows || col+dst.Columns+columns > src.Columns ||
		len(src.Values) != src.Rows*src.Columns || len(dst.Values) != dst.Rows*dst.Columns ||
		src.Valid != nil && len(src.Valid) != len(src.Values) {
		panic(fmt.Sprintf("focal: block of %d x %d at (%d, %d) in a plane of %d x %d at (%d, %d), with margins of %d and %d",
			dst.Rows, dst.Columns, dst.Row, dst.Col, src.Rows, src.Columns, src.Row, src.Col, rows, columns))
	}
	return row, col
}

// allValid reports whether all pixels of a rectangle are valid.
func (p *Plane[T]) allValid(row, col, rows, columns int) bool {
	if p.Valid == nil {
		return true
	}
	for r := row; r < row+rows; r++ {
		if bytes.IndexByte(p.Valid[r*p.Columns+col:][:columns], 0) >= 0 {
			return false
		}
	}
	return true
}

// mask is the validity of a block under construction.
type mask[T Float] struct {
	dst   *Plane[T]
	bytes []byte // nil as long as all pixels are valid
}

// row returns the validity of part of a row, for the caller to fill in.
func (m *mask[T]) row(row, col, columns int) []byte {
	if m.bytes == nil {
		n := len(m.dst.Values)
		if cap(m.dst.Valid) < n {
			m.dst.Valid = make([]byte, n)
		}
		m.bytes = m.dst.Valid[:n]
		for i := range m.bytes {
			m.bytes[i] = 1
		}
	}
	return m.bytes[row*m.dst.Columns+col:][:columns]
}

// finish sets the block's validity.
func (m *mask[T]) finish() {
	if m.bytes == nil || bytes.IndexByte(m.bytes, 0) < 0 {
		m.dst.Valid = nil
		return
	}
	m.dst.Valid = m.bytes
}
