package raster

import (
	"math"

	"leat/block"
)

// Window is a rectangle of pixels of a raster.
type Window = block.Window

// Transform maps pixel coordinates (column, row; 0,0 is the outer corner of the upper left pixel)
// to map coordinates, in GDAL's order: x = t[0] + col*t[1] + row*t[2], y = t[3] + col*t[4] + row*t[5].
type Transform [6]float64

// Identity is the transform of a raster that is not a map: x is the column and y the row.
var Identity = Transform{0, 1, 0, 0, 0, 1}

// Apply returns the map coordinates of a pixel coordinate.
func (t Transform) Apply(col, row float64) (x, y float64) {
	return t[0] + col*t[1] + row*t[2], t[3] + col*t[4] + row*t[5]
}

// Invert returns the pixel coordinate of map coordinates; false when the transform is degenerate.
func (t Transform) Invert(x, y float64) (col, row float64, ok bool) {
	det := t[1]*t[5] - t[2]*t[4]
	if det == 0 || math.IsNaN(det) {
		return 0, 0, false
	}
	x, y = x-t[0], y-t[3]
	return (x*t[5] - y*t[2]) / det, (y*t[1] - x*t[4]) / det, true
}

// Rotated reports whether rows do not run along x, or columns along y.
func (t Transform) Rotated() bool { return t[2] != 0 || t[4] != 0 }

// Shift returns the transform of a window whose upper left pixel is (col, row) of this one.
func (t Transform) Shift(col, row int) Transform {
	x, y := t.Apply(float64(col), float64(row))
	t[0], t[3] = x, y
	return t
}

// Grid is where pixels lie: their number, the transform and the coordinate reference system.
type Grid struct {
	Width, Height int
	Transform     Transform
	HasTransform  bool // false: the file is not georeferenced, Transform is Identity
	CRS           CRS
	// PixelIsPoint: the file says that coordinates name the centres of pixels (GeoTIFF's
	// GTRasterTypeGeoKey). Transform is always that of pixel corners.
	PixelIsPoint bool
}

// Window returns all of the grid.
func (g Grid) Window() Window { return Window{Width: g.Width, Height: g.Height} }

// Bounds returns the outer edges in map coordinates. For rotated grids they are those of the box
// around it.
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
	g.Width, g.Height = w.Width, w.Height
	return g
}
