package stac

import (
	"math"
	"math/rand/v2"
	"testing"
)

// polarGrid is a grid in a polar stereographic projection of a sphere of radius 1; x = x0 +
// col*step, y = y0 - row*step.
type polarGrid struct {
	x0, y0, step float64
	south        bool
}

func (g polarGrid) sign() float64 {
	if g.south {
		return -1
	}
	return 1
}

func (g polarGrid) FromPixels(x, y []float64, ok []bool) error {
	for i := range x {
		px, py := g.x0+x[i]*g.step, g.y0-y[i]*g.step
		x[i] = math.Atan2(px, -py*g.sign()) * 180 / math.Pi
		y[i] = g.sign() * (90 - 2*math.Atan(math.Hypot(px, py)/2)*180/math.Pi)
		ok[i] = true
	}
	return nil
}

func (g polarGrid) ToPixels(x, y []float64, ok []bool) error {
	for i := range x {
		r := 2 * math.Tan((90-g.sign()*y[i])*math.Pi/360)
		lon := x[i] * math.Pi / 180
		x[i], y[i] = (r*math.Sin(lon)-g.x0)/g.step, (g.y0+r*math.Cos(lon)*g.sign())/g.step
		ok[i] = true
	}
	return nil
}

// degreeGrid is a grid in degrees from its upper left corner.
type degreeGrid struct{ west, north, step float64 }

func (g degreeGrid) FromPixels(x, y []float64, ok []bool) error {
	for i := range x {
		x[i], y[i], ok[i] = g.west+x[i]*g.step, g.north-y[i]*g.step, true
	}
	return nil
}

func (g degreeGrid) ToPixels(x, y []float64, ok []bool) error {
	for i := range x {
		turns := math.Floor((x[i] - g.west) / 360)
		x[i], y[i], ok[i] = (x[i]-turns*360-g.west)/g.step, (g.north-y[i])/g.step, true
	}
	return nil
}

// diskGrid is an orthographic picture of the earth from above longitude lon on the equator; its
// corners show the sky.
type diskGrid struct{ lon, step float64 }

func (g diskGrid) FromPixels(x, y []float64, ok []bool) error {
	for i := range x {
		px, py := x[i]*g.step-1, 1-y[i]*g.step
		ok[i] = 1-px*px-py*py > 0
		z := math.Sqrt(1 - px*px - py*py)
		x[i], y[i] = g.lon+math.Atan2(px, z)*180/math.Pi, math.Asin(py)*180/math.Pi
	}
	return nil
}

func (g diskGrid) ToPixels(x, y []float64, ok []bool) error {
	for i := range x {
		lon, lat := (x[i]-g.lon)*math.Pi/180, y[i]*math.Pi/180
		ok[i] = math.Cos(lat)*math.Cos(lon) > 0
		x[i], y[i] = (1+math.Cos(lat)*math.Sin(lon))/g.step, (1-math.Sin(lat))/g.step
	}
	return nil
}

func rings(g *Geometry) [][][]point {
	switch c := g.Coordinates.(type) {
	case [][]point:
		return [][][]point{c}
	case [][][]point:
		return c
	}
	return nil
}

// contains reports whether a point lies in a geometry, by the rule of crossings.
func contains(g *Geometry, p point) bool {
	in := false
	for _, polygon := range rings(g) {
		ring := polygon[0]
		for i, a := range ring[1:] {
			b := ring[i]
			if (a[1] > p[1]) != (b[1] > p[1]) && p[0] < a[0]+(b[0]-a[0])*(p[1]-a[1])/(b[1]-a[1]) {
				in = !in
			}
		}
	}
	return in
}

func inBox(b [4]float64, p point) bool {
	lon := p[0] >= b[0] && p[0] <= b[2]
	if b[0] > b[2] {
		lon = p[0] >= b[0] || p[0] <= b[2]
	}
	return lon && p[1] >= b[1] && p[1] <= b[3]
}

// TestFootprintsCoverTheirGrids compares footprints with the grids, at random places in and
// outside.
func TestFootprintsCoverTheirGrids(t *testing.T) {
	const n = 200
	for _, c := range []struct {
		name  string
		e     Earth
		box   [4]float64 // to 1e-6; 999: not known beforehand
		kind  string
		loose bool // the geometry is a box
	}{
		{name: "degrees", e: degreeGrid{10, 50, 0.01}, box: [4]float64{10, 48, 12, 50}, kind: "Polygon"},
		{name: "antimeridian", e: degreeGrid{179, 50, 0.01}, box: [4]float64{179, 48, -179, 50}, kind: "MultiPolygon"},
		{name: "up to the antimeridian", e: degreeGrid{178, 50, 0.01}, box: [4]float64{178, 48, 180, 50}, kind: "Polygon"},
		{name: "from the antimeridian", e: degreeGrid{180, 50, 0.01}, box: [4]float64{-180, 48, -178, 50}, kind: "Polygon"},
		{name: "the world", e: degreeGrid{-180, 180, 1.8}, box: [4]float64{-180, -90, 180, 90}, kind: "Polygon", loose: true},
		{name: "the world from 0", e: degreeGrid{0, 180, 1.8}, box: [4]float64{-180, -90, 180, 90}, kind: "Polygon", loose: true},
		{name: "a cap in degrees", e: degreeGrid{-60, 90, 0.5}, box: [4]float64{-60, -10, 40, 90}, kind: "Polygon"},
		{name: "north pole inside", e: polarGrid{x0: -0.5, y0: 0.7, step: 0.01}, box: [4]float64{-180, 999, 180, 90}, kind: "Polygon"},
		{name: "pole close to an edge", e: polarGrid{x0: -0.5, y0: 0.001, step: 0.01}, box: [4]float64{-180, 999, 180, 90}, kind: "Polygon"},
		{name: "south pole inside", e: polarGrid{x0: -0.5, y0: 0.7, step: 0.01, south: true}, box: [4]float64{-180, -90, 180, 999}, kind: "Polygon"},
		{name: "pole at a corner", e: polarGrid{step: 0.01}, box: [4]float64{0, 999, 90, 90}, kind: "Polygon"},
		{name: "pole at another corner", e: polarGrid{x0: -2, y0: 2, step: 0.01}, box: [4]float64{-180, 999, -90, 90}, kind: "Polygon"},
		{name: "pole on an edge", e: polarGrid{x0: -1, step: 0.01}, box: [4]float64{-90, 999, 90, 90}, kind: "Polygon"},
		{name: "pole on an edge across the antimeridian", e: polarGrid{x0: -1, y0: 2, step: 0.01},
			box: [4]float64{90, 999, -90, 90}, kind: "MultiPolygon"},
		{name: "across the antimeridian near the pole", e: polarGrid{x0: -1, y0: 2.5, step: 0.01}, box: [4]float64{999, 999, 999, 999},
			kind: "MultiPolygon"},
		{name: "disk", e: diskGrid{lon: 170, step: 0.01}, box: [4]float64{999, 999, 999, 999}, kind: "MultiPolygon", loose: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := NewFootprint(n, n, c.e)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range c.box {
				if v != 999 && !(math.Abs(f.BBox[i]-v) <= 1e-6) {
					t.Errorf("box %v, expected %v", f.BBox, c.box)
					break
				}
			}
			if f.Geometry == nil || f.Geometry.Type != c.kind {
				t.Fatalf("geometry %+v, expected a %s", f.Geometry, c.kind)
			}
			for _, polygon := range rings(f.Geometry) {
				ring := polygon[0]
				if len(ring) < 4 || ring[0] != ring[len(ring)-1] || area(ring[1:]) <= 0 {
					t.Errorf("the ring %v is not closed and counterclockwise", ring)
				}
				for i, p := range ring {
					seam := math.Abs(p[0]) == 180 // either side of it
					if !inBox(f.BBox, p) && !(seam && inBox(f.BBox, point{-p[0], p[1]})) || math.Abs(p[0]) > 180 {
						t.Errorf("point %d of the ring, %v, lies outside the box %v", i, p, f.BBox)
					}
				}
			}
			r := rand.New(rand.NewPCG(1, 2))
			inside, outside := 0, 0
			const margin = 0.5 // pixels that the edges of the geometry may be off
			for range 4000 {
				place := func() []float64 { return []float64{margin + r.Float64()*(n-2*margin)} }
				x, y, ok := place(), place(), make([]bool, 1)
				if err := c.e.FromPixels(x, y, ok); err != nil {
					t.Fatal(err)
				}
				p := point{wrap(x[0]), y[0]}
				if ok[0] && math.Abs(p[1]) < 90 {
					if inside++; !c.loose && (!inBox(f.BBox, p) || !contains(f.Geometry, p)) {
						t.Fatalf("the grid has %v, the footprint does not: %v", p, f.BBox)
					}
				}
				p = point{r.Float64()*360 - 180, math.Asin(2*r.Float64()-1) * 180 / math.Pi}
				x[0], y[0] = p[0], p[1]
				if err := c.e.ToPixels(x, y, ok); err != nil {
					t.Fatal(err)
				}
				if !ok[0] || x[0] < -margin || y[0] < -margin || x[0] > n+margin || y[0] > n+margin {
					if outside++; contains(f.Geometry, p) && !c.loose {
						t.Fatalf("the footprint has %v, the grid does not: %v", p, f.BBox)
					}
				}
			}
			if inside < 1000 || outside < 100 && !c.loose {
				t.Errorf("%d points inside and %d outside compared", inside, outside)
			}
		})
	}
}

func TestDiskHasBox(t *testing.T) {
	f, err := NewFootprint(200, 200, diskGrid{lon: 170, step: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if b := f.BBox; !(math.Abs(b[0]-80) < 0.1 && math.Abs(b[2]+100) < 0.1 && b[1] < -89.9 && b[3] > 89.9) {
		t.Errorf("box %v", b)
	}
}
