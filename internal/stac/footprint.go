package stac

import (
	"math"
	"slices"
)

// Earth converts between pixel coordinates (column, row) of a grid and longitudes and latitudes in
// degrees, in place. ok is set for each point, false for one without an image.
type Earth interface {
	FromPixels(x, y []float64, ok []bool) error
	ToPixels(x, y []float64, ok []bool) error
}

// Footprint is the area that a grid covers, as GeoJSON (RFC 7946) describes it.
type Footprint struct {
	Geometry *Geometry
	// BBox is west, south, east, north. West is larger than east if the area crosses the
	// antimeridian.
	BBox [4]float64
}

// Geometry is a GeoJSON Polygon or MultiPolygon.
type Geometry struct {
	Type        string `json:"type"`
	Coordinates any    `json:"coordinates"`
}

type point [2]float64 // longitude, latitude

// Precision of the edges, in degrees: those of the box, and those of the geometry, whose precision
// is also a tenth of a pixel at most.
const (
	boxPrecision      = 1e-7
	geometryPrecision = 1e-4
)

// NewFootprint returns the footprint of a grid of this size. If parts of its edges have no
// longitude and latitude, as in a picture of the whole disk of the earth, it is the box around
// points inside.
func NewFootprint(width, height int, e Earth) (*Footprint, error) {
	fine, whole, err := edge(width, height, e, 16, boxPrecision)
	if err != nil {
		return nil, err
	}
	if !whole {
		return boxFootprint(width, height, e)
	}
	_, south, _, north := box(fine)
	pixel := (north - south) / float64(max(width, height))
	coarse, _, err := edge(width, height, e, 4, max(geometryPrecision, pixel/10))
	if err != nil {
		return nil, err
	}
	ring, turn := unwrap(fine)
	if turn == 0 {
		shape, _ := unwrap(coarse)
		return flat(ring, shape), nil
	}
	isNorth, err := hasNorthPole(width, height, e)
	if err != nil {
		return nil, err
	}
	shape, turn := unwrap(coarse)
	return polar(ring, shape, turn, isNorth), nil
}

// vertex is a point of the grid's edge.
type vertex struct {
	col, row float64
	point
	fine bool // the part up to the next vertex needs no more vertices
}

// maxPasses bounds how often a part of the edge is halved, maxVertices the vertices.
const (
	maxPasses   = 12
	maxVertices = 1 << 15
)

// edge returns points on the edge of a grid, at least so many a side, such that straight lines
// between them are as precise as asked. whole is false if some have no image.
func edge(width, height int, e Earth, parts int, precision float64) (ring []point, whole bool, err error) {
	w, h := float64(width), float64(height)
	corners := [5][2]float64{{0, 0}, {w, 0}, {w, h}, {0, h}, {0, 0}}
	var list []vertex
	for i, a := range corners[:4] {
		b := corners[i+1]
		for k := range parts {
			s := float64(k) / float64(parts)
			list = append(list, vertex{col: a[0] + s*(b[0]-a[0]), row: a[1] + s*(b[1]-a[1])})
		}
	}
	if whole, err = place(list, e); !whole || err != nil {
		return nil, whole, err
	}
	for pass := 0; pass < maxPasses && len(list) < maxVertices; pass++ {
		var middle []vertex
		for i, a := range list {
			b := list[(i+1)%len(list)]
			if !a.fine {
				middle = append(middle, vertex{col: (a.col + b.col) / 2, row: (a.row + b.row) / 2})
			}
		}
		if len(middle) == 0 {
			break
		}
		if whole, err = place(middle, e); !whole || err != nil {
			return nil, whole, err
		}
		next := make([]vertex, 0, len(list)+len(middle))
		for i, a := range list {
			b := list[(i+1)%len(list)]
			if a.fine {
				next = append(next, a)
				continue
			}
			m := middle[0]
			middle = middle[1:]
			if straight(a.point, m.point, b.point, precision) {
				a.fine = true
				next = append(next, a)
				continue
			}
			next = append(next, a, m)
		}
		list = next
	}
	for _, v := range list {
		ring = append(ring, v.point)
	}
	return ring, true, nil
}

// place sets the points of vertices, and reports whether all have one.
func place(list []vertex, e Earth) (whole bool, err error) {
	ok, err := try(list, e)
	return err == nil && !slices.Contains(ok, false), err
}

// try sets the points of vertices, and returns which have one.
func try(list []vertex, e Earth) ([]bool, error) {
	x, y, ok := make([]float64, len(list)), make([]float64, len(list)), make([]bool, len(list))
	for i, v := range list {
		x[i], y[i] = v.col, v.row
	}
	if err := e.FromPixels(x, y, ok); err != nil {
		return nil, err
	}
	for i := range list {
		if ok[i] {
			list[i].point = point{x[i], min(max(y[i], -90), 90)}
		}
	}
	return ok, nil
}

// straight reports whether m lies on the line from a to b.
func straight(a, m, b point, precision float64) bool {
	turn := wrap(b[0] - a[0])
	if atPole(a) || atPole(b) { // its longitude means nothing
		return math.Abs(m[1]-(a[1]+b[1])/2) <= precision
	}
	return math.Abs(turn) <= 30 && math.Abs(wrap(m[0]-a[0])-turn/2) <= precision &&
		math.Abs(m[1]-(a[1]+b[1])/2) <= precision
}

// wrap returns an angle in -180 to 180.
func wrap(v float64) float64 { return v - 360*math.Round(v/360) }

func atPole(p point) bool { return math.Abs(p[1]) > 90-1e-9 }

// unwrap returns the ring with longitudes that do not jump, and the whole turns, -1, 0 or 1, that
// it makes around the earth's axis.
func unwrap(ring []point) (out []point, turns int) {
	n := len(ring)
	// A single point at a pole has every longitude; several are the edge of a grid whose lines lead
	// to the pole, and have their own.
	lone := func(i int) bool { return atPole(ring[i%n]) && !atPole(ring[(i+1)%n]) && !atPole(ring[(i+n-1)%n]) }
	start := 0
	for start < n && lone(start) {
		start++
	}
	jump := -1 // in out, where the direction is free
	for k := range n {
		i := (start + k) % n
		p := ring[i]
		if lone(i) {
			before, after := ring[(i+n-1)%n], ring[(i+1)%n]
			last := out[len(out)-1][0]
			out = append(out, point{last, p[1]})
			jump = len(out)
			out = append(out, point{last + wrap(after[0]-before[0]), p[1]})
			continue
		}
		if len(out) > 0 {
			last := out[len(out)-1][0]
			p[0] = last + wrap(p[0]-last)
		}
		out = append(out, p)
	}
	last := out[len(out)-1][0]
	total := last + wrap(out[0][0]-last) - out[0][0]
	if turns = int(math.Round(total / 360)); turns != 0 && jump >= 0 {
		for i := jump; i < len(out); i++ { // a pole on the edge is not inside
			out[i][0] -= total
		}
		turns = 0
	}
	return out, turns
}

// flat returns the footprint of a ring around no pole.
func flat(ring, shape []point) *Footprint {
	west, south, east, north := box(ring)
	if east-west >= 360-1e-9 {
		f := &Footprint{BBox: outward(-180, south, 180, north)}
		f.Geometry = polygons(rectangle(-180, south, 180, north))
		return f
	}
	shift := 360 * math.Floor((west+180+1e-9)/360)
	west, east = west-shift, east-shift
	for i := range shape {
		shape[i][0] -= shift
	}
	if east <= 180+1e-9 {
		return &Footprint{BBox: outward(west, south, east, north), Geometry: polygons(shape)}
	}
	a, b := clip(shape, 180, false), clip(shape, 180, true)
	for i := range b {
		b[i][0] -= 360
	}
	return &Footprint{BBox: outward(west, south, east-360, north), Geometry: polygons(a, b)}
}

// polar returns the footprint of a ring around a pole.
func polar(ring, shape []point, turns int, north bool) *Footprint {
	_, south, _, top := box(ring)
	pole := 90.0
	if !north {
		pole = -90
	}
	south, top = min(south, pole), max(top, pole)
	if turns < 0 {
		slices.Reverse(shape)
	}
	// Begin at the antimeridian.
	var cap []point
	n := len(shape)
	for i := range n {
		a, b := shape[i], shape[(i+1)%n]
		b[0] = a[0] + wrap(b[0]-a[0])
		seam := 360*math.Ceil((a[0]-180)/360) + 180
		if b[0] <= a[0] || seam < a[0] || seam >= b[0] {
			continue
		}
		lat := a[1] + (b[1]-a[1])*(seam-a[0])/(b[0]-a[0])
		cap = append(cap, point{-180, lat})
		last := -180 + b[0] - seam
		for k := range n {
			p := shape[(i+1+k)%n]
			if k > 0 {
				last += wrap(p[0] - last)
			}
			cap = append(cap, point{min(max(last, -180), 180), p[1]})
		}
		cap = append(cap, point{180, lat}, point{180, pole}, point{-180, pole})
		break
	}
	return &Footprint{BBox: outward(-180, south, 180, top), Geometry: polygons(cap)}
}

// hasNorthPole reports whether a grid around a pole has the north pole in it.
func hasNorthPole(width, height int, e Earth) (bool, error) {
	x, y, ok := []float64{0, 0}, []float64{90, -90}, make([]bool, 2)
	if err := e.ToPixels(x, y, ok); err != nil {
		return false, err
	}
	in := func(i int) bool {
		return ok[i] && x[i] >= 0 && y[i] >= 0 && x[i] <= float64(width) && y[i] <= float64(height)
	}
	if in(0) != in(1) {
		return in(0), nil
	}
	x[0], y[0] = float64(width)/2, float64(height)/2
	if err := e.FromPixels(x[:1], y[:1], ok[:1]); err != nil {
		return false, err
	}
	return y[0] > 0, nil
}

// samples is the number of points a side that stand for a grid whose edges are not on the earth.
const samples = 128

func boxFootprint(width, height int, e Earth) (*Footprint, error) {
	var inside []vertex
	var limits [][2]vertex // neighbours, the first on the earth, the second not
	list := make([]vertex, 0, (samples+1)*(samples+1))
	for r := range samples + 1 {
		for c := range samples + 1 {
			list = append(list, vertex{col: float64(width) * float64(c) / samples,
				row: float64(height) * float64(r) / samples})
		}
	}
	ok, err := try(list, e)
	if err != nil {
		return nil, err
	}
	for i, v := range list {
		if ok[i] {
			inside = append(inside, v)
		}
		var next []int
		if i%(samples+1) < samples {
			next = append(next, i+1)
		}
		if i+samples+1 < len(list) {
			next = append(next, i+samples+1)
		}
		for _, k := range next {
			if ok[i] && !ok[k] {
				limits = append(limits, [2]vertex{v, list[k]})
			} else if ok[k] && !ok[i] {
				limits = append(limits, [2]vertex{list[k], v})
			}
		}
	}
	if inside, err = toLimits(inside, limits, e); err != nil {
		return nil, err
	}
	var lon []float64
	south, north := 90.0, -90.0
	for _, v := range inside {
		lon = append(lon, wrap(v.point[0]))
		south, north = min(south, v.point[1]), max(north, v.point[1])
	}
	if len(lon) == 0 {
		return &Footprint{}, nil
	}
	slices.Sort(lon)
	west, east := lon[0], lon[len(lon)-1]
	widest := west + 360 - east // the range is all but the widest gap
	for i, v := range lon[1:] {
		if gap := v - lon[i]; gap > widest {
			widest, west, east = gap, v, lon[i]+360
		}
	}
	r := rectangle(west, south, east, north)
	return flat(r, slices.Clone(r)), nil
}

// toLimits adds the outermost points on the earth between pairs of points on and off it.
func toLimits(inside []vertex, limits [][2]vertex, e Earth) ([]vertex, error) {
	const halvings = 40
	for range halvings {
		middle := make([]vertex, len(limits))
		for i, l := range limits {
			middle[i] = vertex{col: (l[0].col + l[1].col) / 2, row: (l[0].row + l[1].row) / 2}
		}
		ok, err := try(middle, e)
		if err != nil {
			return nil, err
		}
		for i, m := range middle {
			if ok[i] {
				limits[i][0] = m
			} else {
				limits[i][1] = m
			}
		}
	}
	for _, l := range limits {
		inside = append(inside, l[0])
	}
	return inside, nil
}

func rectangle(west, south, east, north float64) []point {
	return []point{{west, south}, {east, south}, {east, north}, {west, north}}
}

func box(ring []point) (west, south, east, north float64) {
	west, south, east, north = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range ring {
		west, east = min(west, p[0]), max(east, p[0])
		south, north = min(south, p[1]), max(north, p[1])
	}
	return west, south, east, north
}

// digits of coordinates: a centimetre.
const digits = 1e7

func round(v float64) float64 { return math.Round(v*digits) / digits }

// outward returns a box whose numbers are rounded so that it covers the area.
func outward(west, south, east, north float64) [4]float64 {
	const slack = 1e-3 // of the last digit, for numbers that have no more digits
	down := func(v float64) float64 { return math.Floor(v*digits+slack) / digits }
	up := func(v float64) float64 { return math.Ceil(v*digits-slack) / digits }
	return [4]float64{max(down(west), -180), max(down(south), -90), min(up(east), 180), min(up(north), 90)}
}

// clip returns the part of a ring on one side of a meridian.
func clip(ring []point, at float64, east bool) (out []point) {
	inside := func(p point) bool { return east == (p[0] > at) || p[0] == at }
	for i, a := range ring {
		b := ring[(i+1)%len(ring)]
		if inside(a) {
			out = append(out, a)
		}
		if (a[0]-at)*(b[0]-at) < 0 {
			out = append(out, point{at, a[1] + (b[1]-a[1])*(at-a[0])/(b[0]-a[0])})
		}
	}
	return out
}

// polygons returns rings as a geometry: closed, counterclockwise, rounded, without repeated points.
func polygons(rings ...[]point) *Geometry {
	var all [][][]point
	for _, r := range rings {
		var out []point
		for _, p := range r {
			p = point{round(min(max(p[0], -180), 180)), round(p[1])}
			if len(out) == 0 || out[len(out)-1] != p {
				out = append(out, p)
			}
		}
		if len(out) > 1 && out[0] == out[len(out)-1] {
			out = out[:len(out)-1]
		}
		out = corners(out)
		if area := area(out); len(out) < 3 || area == 0 {
			continue
		} else if area < 0 {
			slices.Reverse(out)
		}
		all = append(all, [][]point{append(out, out[0])})
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return &Geometry{"Polygon", all[0]}
	}
	return &Geometry{"MultiPolygon", all}
}

// corners leaves out points on the straight line between their neighbours.
func corners(ring []point) (out []point) {
	for i, p := range ring {
		a, b := ring[(i+len(ring)-1)%len(ring)], ring[(i+1)%len(ring)]
		cross := (p[0]-a[0])*(b[1]-a[1]) - (p[1]-a[1])*(b[0]-a[0])
		if math.Abs(cross) > 1e-9*math.Hypot(b[0]-a[0], b[1]-a[1]) {
			out = append(out, p)
		}
	}
	return out
}

// area returns twice the signed area of a ring.
func area(ring []point) (sum float64) {
	for i, a := range ring {
		b := ring[(i+1)%len(ring)]
		sum += a[0]*b[1] - b[0]*a[1]
	}
	return sum
}
