package expr

import (
	"errors"
	"math"
	"slices"
)

// Place is the position of the pixels of a call of [Evaluator.EvalAt], for coordinates such as x,
// y, col and row. They are Columns wide, row by row.
type Place struct {
	Col, Row int // of the first pixel in the raster, counted from 0
	Columns  int
	// Transform maps columns and rows of the raster to coordinates, in GDAL's order: x is
	// t[0] + col*t[1] + row*t[2], y is t[3] + col*t[4] + row*t[5].
	Transform [6]float64
	// Geodetic computes lon, lat or pixel_area of the pixels of a row from column col, NaN where
	// there is none. Programs for which Program.Geodetic is true need it.
	Geodetic func(name string, col, row int, d []float64) error
}

// coordinates are the names of the coordinates, by number.
var coordinates = []string{"x", "y", "col", "row", "lon", "lat", "pixel_area"}

var errNoGeodetic = errors.New("expr: Eval of an expression with lon, lat or pixel_area: Place.Geodetic is missing")

// firstGeodetic is the number of the first coordinate that Place.Geodetic computes.
const firstGeodetic = 4

// coordinate returns the value of a coordinate. That of the pixel's centre is a float64, the column
// and the row are integers.
func (c *compiler) coordinate(name string) val {
	c.placed = true
	which := slices.Index(coordinates, name)
	t := floatType(c64)
	if which >= firstGeodetic {
		c.geodetic = true
		return val{t: t, node: c.add(node{op: opPlace, reg: reg64, ref: which}), nan: true}
	}
	if size := [...]int{2: c.width, 3: c.height}; which >= 2 {
		least, most := int64(0), int64(math.MaxInt32)
		switch from := [...]int{2: c.domain.Col, 3: c.domain.Row}[which]; {
		case c.isFocal && c.domain.Empty():
			least = -most
		case c.isFocal:
			least = int64(from)
			most = least + int64([...]int{2: c.domain.Width, 3: c.domain.Height}[which]) - 1
		case size[which] > 0:
			most = int64(size[which]) - 1
		}
		t = intType(least, most)
	}
	return val{t: t, node: c.add(node{op: opPlace, reg: t.class().reg(), ref: which})}
}

// placeKernel returns the instruction that computes a coordinate.
func placeKernel(which int, r regKind) runner {
	switch {
	case which >= firstGeodetic:
		return func(ev *Evaluator, in *instr, n int) { placeGeodetic(ev, ev.r64[in.dst][:n], coordinates[which]) }
	case which < 2:
		return func(ev *Evaluator, in *instr, n int) { placeXY(ev, ev.r64[in.dst][:n], which*3) }
	case r == reg32:
		return func(ev *Evaluator, in *instr, n int) { placeIndex(ev, ev.r32[in.dst][:n], which == 3) }
	}
	return func(ev *Evaluator, in *instr, n int) { placeIndex(ev, ev.r64[in.dst][:n], which == 3) }
}

// placeXY computes x, with the coefficients from 0, or y, with those from 3, of pixel centres.
func placeXY(ev *Evaluator, d []float64, from int) {
	t := ev.place.Transform[from : from+3]
	ev.place.rows(ev.base, len(d), func(i, n, col, row int) {
		down := float64((float64(row) + 0.5) * t[2])
		for k := range n {
			d[i+k] = float64((float64(col+k)+0.5)*t[1]) + down + t[0]
		}
	})
}

func placeGeodetic(ev *Evaluator, d []float64, name string) {
	ev.place.rows(ev.base, len(d), func(i, n, col, row int) {
		if err := ev.place.Geodetic(name, col, row, d[i:i+n]); err != nil {
			ev.recordError(PixelError{Index: i, Input: name, Msg: err.Error()})
		}
	})
}

func placeIndex[T real](ev *Evaluator, d []T, rows bool) {
	ev.place.rows(ev.base, len(d), func(i, n, col, row int) {
		for k := range n {
			if rows {
				d[i+k] = T(row)
			} else {
				d[i+k] = T(col + k)
			}
		}
	})
}

// rows calls f for the part of each row among n pixels from pixel base on: its index among them,
// its length, and column and row of its first pixel.
func (p *Place) rows(base, n int, f func(i, n, col, row int)) {
	for i := 0; i < n; {
		col := (base + i) % p.Columns
		part := min(n-i, p.Columns-col)
		f(i, part, p.Col+col, p.Row+(base+i)/p.Columns)
		i += part
	}
}
