package raster

import (
	"math"

	"leat/block"
)

// Window is a rectangle of pixels of a raster.
type Window = block.Window

// Transform maps pixel coordinates (column, row; 0,0 is the outer corner of the upper left pixel)
// to map coordinates, in GDAL's order: x = t[0] + col*t[1] + row*t[2], y = t[3] + col*t[4] +
// row*t[5].
type Transform [6]float64

// Identity is the transform of a raster that is not a map: x is the column and y the row.
var Identity = Transform{0, 1, 0, 0, 0, 1}

// Apply returns the map coordinates of a pixel coordinate.
func (t Transform) Apply(col, row float64) (x, y float64) {
	// Each product is rounded, so that all processors compute the same coordinates.
	return t[0] + float64(col*t[1]) + float64(row*t[2]), t[3] + float64(col*t[4]) + float64(row*t[5])
}

// Invert returns the pixel coordinate of map coordinates, and false when the transform is
// degenerate. x and y may be infinite unless the transform is rotated.
func (t Transform) Invert(x, y float64) (col, row float64, ok bool) {
	if !t.rotated() { // the formula below would overflow, underflow, or multiply infinity by 0
		if t[1] == 0 || t[5] == 0 || math.IsNaN(t[1]) || math.IsNaN(t[5]) {
			return 0, 0, false
		}
		return (x - t[0]) / t[1], (y - t[3]) / t[5], true
	}
	det := float64(t[1]*t[5]) - float64(t[2]*t[4])
	if det == 0 || math.IsNaN(det) {
		return 0, 0, false
	}
	x, y = x-t[0], y-t[3]
	return (float64(x*t[5]) - float64(y*t[2])) / det, (float64(y*t[1]) - float64(x*t[4])) / det, true
}

// rotated reports whether the grid is rotated or sheared against the axes of the map.
func (t Transform) rotated() bool { return t[2] != 0 || t[4] != 0 }

// Shift returns the transform of a window whose upper left pixel is (col, row) of this one.
func (t Transform) Shift(col, row int) Transform {
	x, y := t.Apply(float64(col), float64(row))
	t[0], t[3] = x, y
	return t
}

// Grid is the number of pixels, their transform and their coordinate reference system. GCPs and RPC
// say less exactly where they lie; comparisons of grids ignore them.
type Grid struct {
	Width, Height int
	Transform     Transform
	HasTransform  bool // false: the file is not georeferenced, Transform is Identity
	CRS           CRS
	// PixelIsPoint reports whether the file's coordinates are those of pixel centres (GeoTIFF's
	// GTRasterTypeGeoKey). Transform always refers to pixel corners.
	PixelIsPoint bool

	// GCPs and RPC are nil where the file has none. Without a transform the CRS of a raster with
	// GCPs is theirs, and CRS is zero. JSON leaves both out: what is computed does not depend on
	// them.
	GCPs *GCPs `json:"-"`
	RPC  *RPC  `json:"-"`
}

// Window returns the window of the whole grid.
func (g Grid) Window() Window { return Window{Width: g.Width, Height: g.Height} }

// Bounds returns the bounding box of the grid in map coordinates.
func (g Grid) Bounds() (minX, minY, maxX, maxY float64) {
	minX, minY = math.Inf(1), math.Inf(1)
	maxX, maxY = math.Inf(-1), math.Inf(-1)
	for _, c := range [4][2]int{{0, 0}, {g.Width, 0}, {0, g.Height}, {g.Width, g.Height}} {
		x, y := g.Transform.Apply(float64(c[0]), float64(c[1]))
		minX, maxX = math.Min(minX, x), math.Max(maxX, x)
		minY, maxY = math.Min(minY, y), math.Max(maxY, y)
	}
	return
}

// Sub returns the grid of a window of g.
func (g Grid) Sub(w Window) Grid {
	g.Transform = g.Transform.Shift(w.Col, w.Row)
	g.GCPs, g.RPC = g.GCPs.shift(w.Col, w.Row), g.RPC.shift(w.Col, w.Row)
	g.Width, g.Height = w.Width, w.Height
	return g
}
