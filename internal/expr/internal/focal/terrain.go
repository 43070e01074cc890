package focal

import (
	"bytes"
	"math"

	"leat/internal/elementary"
)

// The terrain functions compute in float64 from the 3 x 3 neighbours
//
//	a b c
//	d e f
//	g h i
//
// A pixel is invalid unless all nine are valid. Gradients are those of Horn, Hill shading and the
// reflectance map (1981), as in gdaldem.

// CellSize is the size of a pixel, as in a raster's transform: Y is negative if rows run south.
// Both are in horizontal units, and Scale vertical units are as long as one of them: X * Scale is
// the width in vertical units, as with gdaldem -s.
type CellSize struct{ X, Y, Scale float64 }

// Slope sets dst to the slopes in degrees.
func Slope[T Float](dst, src *Plane[T], cell CellSize, s *Scratch) {
	x, y := 1/(8*cell.X*cell.Scale), 1/(8*cell.Y*cell.Scale)
	k := newTerrainConstants(x, y, 1, math.MaxFloat64, 64, 0.5, 1.0/64, 1.0/5, 1.0/3, 1.0/7, math.Pi/2, 180/math.Pi)
	terrain(dst, src, false, func(to, above, here, below []T, _ []byte) {
		from := slopeFast(to, above, here, below, k)
		to, above, here, below = to[from:], above[from:], here[from:], below[from:]
		left, center := newHornColumn(above, here, below, 0), newHornColumn(above, here, below, 1)
		above, here, below = above[2:][:len(to)], here[2:][:len(to)], below[2:][:len(to)]
		for i := range to {
			right := newHornColumn(above, here, below, i)
			dx, dy := horn(left, center, right)
			left, center = center, right
			dx, dy = float64(dx*x), float64(dy*y)
			rise := math.Sqrt(float64(dx*dx) + float64(dy*dy))
			if rise <= 1 {
				to[i] = T(atanRatio(rise, 1, rise) * (180 / math.Pi))
			} else {
				to[i] = T(atan(rise) * (180 / math.Pi))
			}
		}
	})
}

// Aspect sets dst to the directions in which the surface falls most steeply, in degrees clockwise
// from north, from 0 to less than 360. A flat pixel is invalid.
func Aspect[T Float](dst, src *Plane[T], cell CellSize, s *Scratch) {
	x, y := 1/cell.X, 1/cell.Y
	terrain(dst, src, true, func(to, above, here, below []T, valid []byte) {
		left, center := newHornColumn(above, here, below, 0), newHornColumn(above, here, below, 1)
		above, here, below = above[2:][:len(to)], here[2:][:len(to)], below[2:][:len(to)]
		valid = valid[:len(to)]
		for i := range to {
			right := newHornColumn(above, here, below, i)
			dx, dy := horn(left, center, right)
			left, center = center, right
			v := T(bearing(float64(dx*x), float64(dy*y)))
			if v >= 360 {
				v = 0
			}
			if dx == 0 && dy == 0 {
				v, valid[i] = 0, 0
			}
			to[i] = v
		}
	})
}

// Hillshade sets dst to the brightness of the surface under light from an azimuth, clockwise from
// north, and an altitude above the horizon, both in degrees: a whole number from 1 to 255, as
// gdaldem writes it.
func Hillshade[T Float](dst, src *Plane[T], cell CellSize, azimuth, altitude float64, s *Scratch) {
	x, y := 1/(8*cell.X*cell.Scale), 1/(8*cell.Y*cell.Scale)
	az, alt := azimuth*(math.Pi/180), altitude*(math.Pi/180)
	up := 254 * elementary.Sin(alt)
	east := 254 * elementary.Cos(alt) * elementary.Sin(az)
	north := 254 * elementary.Cos(alt) * elementary.Cos(az)
	k := newTerrainConstants(x, y, 1, math.MaxFloat64, east, north, up, 1.5)
	terrain(dst, src, false, func(to, above, here, below []T, _ []byte) {
		from := hillshadeFast(to, above, here, below, k)
		to, above, here, below = to[from:], above[from:], here[from:], below[from:]
		left, center := newHornColumn(above, here, below, 0), newHornColumn(above, here, below, 1)
		above, here, below = above[2:][:len(to)], here[2:][:len(to)], below[2:][:len(to)]
		for i := range to {
			right := newHornColumn(above, here, below, i)
			dx, dy := horn(left, center, right)
			left, center = center, right
			dx, dy = float64(dx*x), float64(dy*y)
			light := (up - float64(dx*east) - float64(dy*north)) / math.Sqrt(1+float64(dx*dx)+float64(dy*dy))
			if light != light { // infinite heights; not every processor converts NaN alike
				to[i] = T(light)
				continue
			}
			to[i] = T(int32(max(light, 0) + 1.5))
		}
	})
}

// hornColumn is what a column of three neighbours contributes to the gradient: its weighted sum and
// its rise from the row above to the row below.
type hornColumn struct{ sum, rise float64 }

func newHornColumn[T Float](above, here, below []T, i int) hornColumn {
	a, d, g := float64(above[i]), float64(here[i]), float64(below[i])
	return hornColumn{a + (d + d) + g, g - a}
}

// horn returns eight times the rise from column to column and from row to row.
func horn(left, center, right hornColumn) (dx, dy float64) {
	return right.sum - left.sum, left.rise + (center.rise + center.rise) + right.rise
}

// arcs are the arc tangents of multiples of 1/64: of those up to 1, and more, so that indexing
// needs no check.
var arcs = func() (arcs [128]float64) {
	for i := range arcs {
		arcs[i] = elementary.Atan(float64(i) / 64)
	}
	return arcs
}()

// atan returns the arc tangent of x > 1, or NaN.
func atan(x float64) float64 {
	if x < math.MaxFloat64 {
		return math.Pi/2 - atanRatio(1, x, 1/x)
	}
	return elementary.Atan(x)
}

// atanRatio returns the arc tangent of y / x, which is about ratio, from 0 to 1. It adds a short
// series to the arc tangent of a multiple of 1/64.
func atanRatio(y, x, ratio float64) float64 {
	k := int(float64(ratio*64)+0.5) & 127
	c := float64(k) * (1.0 / 64)
	u := (y - float64(c*x)) / (x + float64(c*y))
	z := float64(u * u)
	p := (float64(z*(1.0/5)) - 1.0/3) - float64(float64(z*z)*(1.0/7))
	return arcs[k] + (u + float64(float64(u*z)*p))
}

// bearing returns the direction opposite to (east, north) in degrees clockwise from north, from 0
// to 360. If both are 0, it is NaN.
func bearing(east, north float64) float64 {
	e, n := math.Abs(east), math.Abs(north)
	var angle float64 // from the north-south axis
	switch {
	case !(e <= math.MaxFloat64 && n <= math.MaxFloat64):
		angle = elementary.Atan2(e, n)
	case e <= n:
		angle = atanRatio(e, n, e/n)
	default:
		angle = math.Pi/2 - atanRatio(n, e, n/e)
	}
	angle = float64(angle * (180 / math.Pi))
	if north > 0 {
		angle = 180 - angle
	}
	if east > 0 {
		angle = 360 - angle
	}
	return angle
}

// TPI sets dst to the topographic position indices: the height minus the mean of the eight
// neighbours.
func TPI[T Float](dst, src *Plane[T], s *Scratch) {
	terrain(dst, src, false, func(to, above, here, below []T, _ []byte) {
		for i := range to {
			sum := float64(above[i]) + float64(above[i+1]) + float64(above[i+2]) + float64(here[i]) +
				float64(here[i+2]) + float64(below[i]) + float64(below[i+1]) + float64(below[i+2])
			to[i] = T(float64(here[i+1]) - float64(sum/8))
		}
	})
}

// TRI sets dst to the terrain ruggedness indices of Riley, DeGloria and Elliot, A terrain
// ruggedness index that quantifies topographic heterogeneity (1999): the square root of the sum of
// the squared differences from the eight neighbours.
func TRI[T Float](dst, src *Plane[T], s *Scratch) {
	terrain(dst, src, false, func(to, above, here, below []T, _ []byte) {
		for i := range to {
			e := float64(here[i+1])
			square := func(v T) float64 {
				d := float64(v) - e
				return float64(d * d)
			}
			to[i] = T(math.Sqrt(square(above[i]) + square(above[i+1]) + square(above[i+2]) + square(here[i]) +
				square(here[i+2]) + square(below[i]) + square(below[i+1]) + square(below[i+2])))
		}
	})
}

// Roughness sets dst to the largest minus the smallest of the nine heights.
func Roughness[T Float](dst, src *Plane[T], s *Scratch) {
	terrain(dst, src, false, func(to, above, here, below []T, _ []byte) {
		for i := range to {
			a, b, c := above[i], above[i+1], above[i+2]
			d, e, f := here[i], here[i+1], here[i+2]
			g, h, k := below[i], below[i+1], below[i+2]
			to[i] = max(a, b, c, d, e, f, g, h, k) - min(a, b, c, d, e, f, g, h, k)
		}
	})
}

// Curvature sets dst to the curvatures of Zevenbergen and Thorne, Quantitative analysis of land
// surface topography (1987): -200 * (D + E) with D = ((d+f)/2 - e) / X**2 and E = ((b+h)/2 - e) /
// Y**2, where X and Y are in vertical units. The surface is convex where they are positive.
func Curvature[T Float](dst, src *Plane[T], cell CellSize, s *Scratch) {
	x, y := cell.X*cell.Scale, cell.Y*cell.Scale
	x, y = x*x, y*y
	terrain(dst, src, false, func(to, above, here, below []T, _ []byte) {
		for i := range to {
			e := float64(here[i+1])
			d := (float64((float64(here[i])+float64(here[i+2]))/2) - e) / x
			f := (float64((float64(above[i+1])+float64(below[i+1]))/2) - e) / y
			to[i] = T(float64(-200*(d+f)) + 0) // not -0
		}
	})
}

// terrain calls compute with each row of dst and the three rows of src around it, which begin one
// column to the left. If marks is set, compute can clear bytes of valid, else it is nil.
func terrain[T Float](dst, src *Plane[T], marks bool, compute func(to, above, here, below []T, valid []byte)) {
	row, col := offset(dst, src, 1, 1)
	m := &mask[T]{dst: dst}
	for r := range dst.Rows {
		n := dst.Columns
		at := (row+r)*src.Columns + col - 1
		lines := [3]int{at - src.Columns, at, at + src.Columns}
		to := dst.Values[r*n:][:n]
		var valid []byte
		if marks {
			valid = m.row(r, 0, n)
		}
		above, here, below := src.Values[lines[0]:][:n+2], src.Values[lines[1]:][:n+2], src.Values[lines[2]:][:n+2]
		compute(to, above, here, below, valid)
		if src.Valid == nil {
			continue
		}
		for _, at := range lines {
			if v := src.Valid[at:][:n+2]; bytes.IndexByte(v, 0) >= 0 {
				valid = m.row(r, 0, n)
				invalidate(valid, v)
				invalidate(valid, v[1:])
				invalidate(valid, v[2:])
			}
		}
	}
	m.finish()
}
