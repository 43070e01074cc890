package zonal

import (
	"fmt"
	"math"

	"leat/block"
)

// Polygon is a polygon or multipolygon in pixel coordinates: x in columns and y in rows, so that
// the pixel in column c and row r covers [c, c+1] x [r, r+1]. The even-odd rule decides what the
// rings of one part enclose, whatever their order and direction; several parts cover their union. A
// ring may repeat its first vertex at its end, touch itself or cross itself.
type Polygon struct {
	XY    []float64 // x and y of each vertex, ring by ring
	Rings []int     // the number of vertices up to the end of each ring
	Parts []int     // the number of rings up to the end of each part
}

// Box is the bounding box of a polygon.
type Box struct{ MinX, MinY, MaxX, MaxY float64 }

// Bounds returns the bounding box of all vertices, and false for a polygon without vertices.
func (p *Polygon) Bounds() (Box, bool) {
	if len(p.XY) < 2 {
		return Box{}, false
	}
	b := Box{p.XY[0], p.XY[1], p.XY[0], p.XY[1]}
	for i := 2; i+1 < len(p.XY); i += 2 {
		b.MinX, b.MaxX = min(b.MinX, p.XY[i]), max(b.MaxX, p.XY[i])
		b.MinY, b.MaxY = min(b.MinY, p.XY[i+1]), max(b.MaxY, p.XY[i+1])
	}
	return b, true
}

// Window returns the pixels that a polygon with this bounding box can cover or touch. They may lie
// outside the raster.
func (b Box) Window() block.Window {
	c0, r0, c1, r1 := floor(b.MinX), floor(b.MinY), ceil(b.MaxX), ceil(b.MaxY)
	return block.Window{Col: c0, Row: r0, Width: max(c1-c0, 1), Height: max(r1-r0, 1)}
}

// Check returns an error when the polygon cannot be rasterized: its counts disagree, or a
// coordinate is not finite, as where a point has no place in the raster's CRS.
func (p *Polygon) Check() error {
	vertices, rings := 0, 0
	for _, end := range p.Rings {
		if end < vertices {
			return fmt.Errorf("polygon: ring ends at vertex %d before it begins at %d", end, vertices)
		}
		vertices = end
	}
	for _, end := range p.Parts {
		if end < rings {
			return fmt.Errorf("polygon: part ends at ring %d before it begins at %d", end, rings)
		}
		rings = end
	}
	if len(p.XY) != 2*vertices || len(p.Rings) != rings {
		return fmt.Errorf("polygon: %d coordinates and %d rings, expected %d and %d", len(p.XY), len(p.Rings), 2*vertices, rings)
	}
	for i, v := range p.XY {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("polygon: vertex %d has the coordinate %v, expected a finite number", i/2, v)
		}
	}
	return nil
}

// limit bounds the pixels that coordinates are converted to, so that sums of a few do not overflow.
const limit = 1 << 40

// floor returns the largest integer up to v, within ±limit.
func floor(v float64) int {
	if !(v > -limit) {
		return -limit
	}
	i := int(min(v, limit))
	if float64(i) > v {
		i--
	}
	return i
}

// ceil returns the smallest integer from v, within ±limit.
func ceil(v float64) int {
	if !(v > -limit) {
		return -limit
	}
	i := int(min(v, limit))
	if float64(i) < v && i < limit {
		i++
	}
	return i
}
