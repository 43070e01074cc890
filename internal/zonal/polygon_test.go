package zonal

import (
	"math"
	"math/rand/v2"
)

// newPolygon returns a polygon of one part from rings of x, y, x, y, ….
func newPolygon(rings ...[]float64) *Polygon { return multi(rings) }

// multi returns a polygon of several parts.
func multi(parts ...[][]float64) *Polygon {
	p := &Polygon{}
	for _, rings := range parts {
		for _, r := range rings {
			p.XY = append(p.XY, r...)
			p.Rings = append(p.Rings, len(p.XY)/2)
		}
		p.Parts = append(p.Parts, len(p.Rings))
	}
	return p
}

// star returns a simple ring around a centre. Coordinates are multiples of 1/grid, or any if grid
// is 0.
func star(rng *rand.Rand, x, y, radius float64, vertices int, grid float64) []float64 {
	var ring []float64
	for i := range vertices {
		r := radius * (0.3 + 0.7*rng.Float64())
		a := 2 * math.Pi * (float64(i) + 0.8*rng.Float64()) / float64(vertices)
		px, py := x+r*math.Cos(a), y+r*math.Sin(a)
		if grid > 0 {
			px, py = math.Round(px*grid)/grid, math.Round(py*grid)/grid
		}
		ring = append(ring, px, py)
	}
	if rng.IntN(2) == 0 { // the other direction
		for i, j := 0, len(ring)-2; i < j; i, j = i+2, j-2 {
			ring[i], ring[i+1], ring[j], ring[j+1] = ring[j], ring[j+1], ring[i], ring[i+1]
		}
	}
	if rng.IntN(2) == 0 { // closed
		ring = append(ring, ring[0], ring[1])
	}
	return ring
}

// crossing returns a ring of random vertices, which crosses itself.
func crossing(rng *rand.Rand, size float64, vertices int, grid float64) []float64 {
	var ring []float64
	for range 2 * vertices {
		v := rng.Float64() * size
		if grid > 0 {
			v = math.Round(v*grid) / grid
		}
		ring = append(ring, v)
	}
	return ring
}

// randomPolygon returns one of several shapes within about [-5, 45].
func randomPolygon(rng *rand.Rand) *Polygon {
	grid := []float64{0, 1, 2, 8}[rng.IntN(4)]
	switch rng.IntN(5) {
	case 0: // tiny, often inside a pixel
		return newPolygon(star(rng, 20*rng.Float64(), 20*rng.Float64(), 0.01+0.6*rng.Float64(), 3+rng.IntN(9), 0))
	case 1: // with a hole
		x, y, r := 20+5*rng.Float64(), 20+5*rng.Float64(), 10+10*rng.Float64()
		return newPolygon(star(rng, x, y, r, 40, grid), star(rng, x, y, 0.25*r, 12, grid))
	case 2: // parts, which may overlap
		return multi([][]float64{star(rng, 12, 12, 14, 9, grid)}, [][]float64{star(rng, 28, 25, 14, 12, grid)})
	case 3:
		return newPolygon(crossing(rng, 40, 4+rng.IntN(9), grid))
	}
	return newPolygon(star(rng, 40*rng.Float64(), 40*rng.Float64(), 15*rng.Float64(), 3+rng.IntN(60), grid))
}
