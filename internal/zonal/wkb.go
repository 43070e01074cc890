package zonal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Geometry types of well-known binary, without the dimensions.
const (
	wkbPolygon      = 3
	wkbMultiPolygon = 6
	wkbCollection   = 7
)

// wkbNames names the geometry types, for errors.
var wkbNames = map[uint32]string{1: "Point", 2: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString",
	6: "MultiPolygon", 7: "GeometryCollection", 8: "CircularString", 9: "CompoundCurve", 10: "CurvePolygon",
	11: "MultiCurve", 12: "MultiSurface", 13: "Curve", 14: "Surface", 15: "PolyhedralSurface", 16: "TIN", 17: "Triangle"}

// maxNesting bounds the depth of nested collections.
const maxNesting = 16

// A TypeError is returned for a geometry that is not made of polygons.
type TypeError struct{ Type string }

func (e *TypeError) Error() string {
	return fmt.Sprintf("geometry of type %s, expected Polygon or MultiPolygon", e.Type)
}

var errTruncated = errors.New("geometry ends early")

// ParseWKB reads a Polygon, a MultiPolygon or a collection of them from well-known binary of either
// byte order, in ISO's or PostGIS's form. Z and M are dropped. It returns a [TypeError] for other
// geometries, and an error for bytes that are not well-formed or hold a coordinate that is not
// finite. The polygon is in the coordinates of the geometry.
func ParseWKB(b []byte) (*Polygon, error) {
	r := &wkbReader{rest: b, p: &Polygon{}}
	if err := r.geometry(0, 0); err != nil {
		return nil, err
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("geometry: %d bytes follow its end", len(r.rest))
	}
	return r.p, r.p.Check()
}

// wkbReader appends the rings of a geometry to a polygon.
type wkbReader struct {
	rest  []byte
	order binary.ByteOrder
	p     *Polygon
}

func (r *wkbReader) uint32() (uint32, error) {
	if len(r.rest) < 4 {
		return 0, errTruncated
	}
	v := r.order.Uint32(r.rest)
	r.rest = r.rest[4:]
	return v, nil
}

// count reads the number of items that follow, each of at least size bytes.
func (r *wkbReader) count(size int) (int, error) {
	n, err := r.uint32()
	if err != nil {
		return 0, err
	}
	if uint64(n)*uint64(size) > uint64(len(r.rest)) {
		return 0, errTruncated
	}
	return int(n), nil
}

// geometry reads a geometry, which must have the type want unless want is 0.
func (r *wkbReader) geometry(want uint32, depth int) error {
	if len(r.rest) == 0 {
		return errTruncated
	}
	switch r.rest[0] {
	case 0:
		r.order = binary.BigEndian
	case 1:
		r.order = binary.LittleEndian
	default:
		return fmt.Errorf("geometry: byte order %d, expected 0 or 1", r.rest[0])
	}
	r.rest = r.rest[1:]
	code, err := r.uint32()
	if err != nil {
		return err
	}
	if code&0x20000000 != 0 { // a spatial reference id follows
		if _, err := r.uint32(); err != nil {
			return err
		}
	}
	typ, dims := code&0x0fffffff, 2
	if code&0x80000000 != 0 {
		dims++
	}
	if code&0x40000000 != 0 {
		dims++
	}
	switch iso := typ / 1000; {
	case iso == 1 || iso == 2:
		dims = 3
	case iso == 3:
		dims = 4
	case iso > 3:
		return fmt.Errorf("geometry: unknown type %d", code)
	}
	typ %= 1000
	name, known := wkbNames[typ]
	switch {
	case !known:
		return fmt.Errorf("geometry: unknown type %d", code)
	case want != 0 && typ != want:
		return fmt.Errorf("geometry: %s in a %s", name, wkbNames[wkbMultiPolygon])
	case typ == wkbPolygon:
		return r.polygon(dims)
	case typ != wkbMultiPolygon && typ != wkbCollection:
		return &TypeError{name}
	case depth == maxNesting:
		return fmt.Errorf("geometry: collections nested deeper than %d", maxNesting)
	}
	n, err := r.count(9) // byte order, type, number of rings
	if err != nil {
		return err
	}
	member := uint32(0)
	if typ == wkbMultiPolygon {
		member = wkbPolygon
	}
	for range n {
		if err := r.geometry(member, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// polygon reads the rings of a polygon as one part.
func (r *wkbReader) polygon(dims int) error {
	rings, err := r.count(4)
	if err != nil {
		return err
	}
	for range rings {
		n, err := r.count(8 * dims)
		if err != nil {
			return err
		}
		for i := range n {
			at := r.rest[i*8*dims:]
			x, y := r.order.Uint64(at), r.order.Uint64(at[8:])
			r.p.XY = append(r.p.XY, math.Float64frombits(x), math.Float64frombits(y))
		}
		r.rest = r.rest[n*8*dims:]
		r.p.Rings = append(r.p.Rings, len(r.p.XY)/2)
	}
	r.p.Parts = append(r.p.Parts, len(r.p.Rings))
	return nil
}
