package exec

import (
	"math"

	"leat/apply/internal/resolve"
	"leat/internal/elementary"
	"leat/internal/expr"
	"leat/internal/gdal"
	"leat/raster"
)

// geodetic computes lon, lat and pixel_area of the pixels of a grid.
type geodetic struct {
	transform raster.Transform
	plane     *gdal.Plane // to EPSG:4326; nil if the grid is in it

	lon, lat []float64
	ok       []bool
}

// place calls f with at, completed by the function Geodetic if the program needs it. That function
// is valid until f returns.
func place(p *resolve.Program, grid raster.Grid, at expr.Place, f func(at expr.Place) error) error {
	if !p.Geodetic() {
		return f(at)
	}
	return withGeodetic(grid, func(g *geodetic) error {
		at.Geodetic = g.coordinate
		return f(at)
	})
}

// withGeodetic calls f with what computes the coordinates of a grid's pixels, which is valid until
// f returns.
func withGeodetic(grid raster.Grid, f func(g *geodetic) error) error {
	g := &geodetic{transform: grid.Transform}
	if gdal.IsWGS84(grid.CRS) {
		return f(g)
	}
	var failed error
	err := gdal.OnPlane(grid, gdal.WGS84, func(p gdal.Plane) error {
		g.plane = &p
		failed = f(g)
		return nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// segment is the number of columns whose points are transformed together, from a multiple of it on.
// PROJ may choose its operation by all points of a call, so those must not depend on the block.
const segment = 64

// coordinate is the function of expr.Place.Geodetic.
func (g *geodetic) coordinate(name string, col, row int, d []float64) error {
	for len(d) > 0 {
		from := int(math.Floor(float64(col)/segment)) * segment
		n := min(from+segment-col, len(d))
		if err := g.part(name, col-from, from, row, d[:n]); err != nil {
			return err
		}
		col, d = col+n, d[n:]
	}
	return nil
}

// part computes the coordinates of the pixels of a segment that begins at column from, the first
// skip left out.
func (g *geodetic) part(name string, skip, from, row int, d []float64) error {
	if name == "pixel_area" {
		return g.areas(skip, from, row, d)
	}
	if err := g.points(from, row, 0.5, segment); err != nil {
		return err
	}
	values := g.lon
	if name == "lat" {
		values = g.lat
	}
	for i := range d {
		if d[i] = math.NaN(); g.ok[skip+i] {
			d[i] = values[skip+i]
		}
	}
	return nil
}

// points computes longitudes and latitudes of n points, each one pixel from the next. The first
// lies shift pixels right and down of the upper left corner of a pixel.
func (g *geodetic) points(from, row int, shift float64, n int) error {
	if g.lon == nil {
		g.lon, g.lat, g.ok = make([]float64, 2*(segment+1)), make([]float64, 2*(segment+1)), make([]bool, 2*(segment+1))
	}
	return g.fill(g.lon[:n], g.lat[:n], g.ok[:n], from, row, shift)
}

func (g *geodetic) fill(lon, lat []float64, ok []bool, from, row int, shift float64) error {
	for i := range lon {
		lon[i], lat[i] = float64(from+i)+shift, float64(row)+shift
		if ok[i] = true; g.plane == nil {
			t := &g.transform
			col, down := lon[i], lat[i]
			lon[i] = float64(col*t[1]) + float64(down*t[2]) + t[0]
			lat[i] = float64(col*t[4]) + float64(down*t[5]) + t[3]
		}
	}
	if g.plane != nil {
		if err := g.plane.FromPixels(lon, lat, ok); err != nil {
			return err
		}
	}
	for i := range ok {
		ok[i] = ok[i] && math.Abs(lat[i]) <= 90+beyondPole
	}
	return nil
}

// beyondPole is how far beyond the poles, in degrees, rounded transforms put the edge of a grid.
const beyondPole = 1e-6

// areas computes the areas of pixels: those of the quadrilaterals between their corners in an
// equal-area projection of the ellipsoid.
func (g *geodetic) areas(skip, from, row int, d []float64) error {
	const n = segment + 1
	if err := g.points(from, row, 0, n); err != nil {
		return err
	}
	lon2, lat2, ok2 := g.lon[n:2*n], g.lat[n:2*n], g.ok[n:2*n]
	if err := g.fill(lon2, lat2, ok2, from, row+1, 0); err != nil {
		return err
	}
	for i := range d {
		k := skip + i
		if !g.ok[k] || !g.ok[k+1] || !ok2[k] || !ok2[k+1] {
			d[i] = math.NaN()
			continue
		}
		d[i] = quadrilateral([4]float64{g.lon[k], g.lon[k+1], lon2[k+1], lon2[k]},
			[4]float64{g.lat[k], g.lat[k+1], lat2[k+1], lat2[k]})
	}
	return nil
}

// The WGS 84 ellipsoid.
const (
	semiMajor    = 6378137.0
	eccentricity = 0.0818191908426214957 // the root of f (2 - f), f = 1 / 298.257223563
)

// quadrilateral returns the area in square metres of a quadrilateral on the ellipsoid, whose sides
// are straight in Lambert's cylindrical equal-area projection. A pixel that holds a pole has no
// area.
func quadrilateral(lon, lat [4]float64) float64 {
	var x, y [4]float64
	for i := range lon {
		turn := lon[i] - lon[0]
		turn -= float64(360 * math.Round(turn/360))
		x[i] = turn * (math.Pi / 180)
		y[i] = authalic(lat[i]) - authalic(lat[0])
	}
	sum := 0.0
	for i := range x {
		k := (i + 1) % 4
		if math.Abs(x[k]-x[i]) > math.Pi {
			return math.NaN()
		}
		sum += float64(x[i]*y[k]) - float64(x[k]*y[i])
	}
	return math.Abs(sum) / 2 * (semiMajor * semiMajor)
}

// authalic returns the height of a latitude on the equal-area cylinder around an ellipsoid with the
// semi-major axis 1: Snyder, Map Projections (1987), equation 3-12, halved.
func authalic(lat float64) float64 {
	s := elementary.Sin(lat * (math.Pi / 180))
	es := eccentricity * s
	const rest = 1 - eccentricity*eccentricity
	atanh := (elementary.Log1p(es) - elementary.Log1p(-es)) / 2
	return rest / 2 * (s/(1-float64(es*es)) + atanh/eccentricity)
}
