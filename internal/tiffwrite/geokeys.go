package tiffwrite

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"leat/internal/tiff"
	"leat/internal/wkt"
	"leat/raster"
)

// Geo keys that define a system, named as in the specification (OGC 19-008r4, annex B).
const (
	geoKeyGeodeticDatum       = 2050
	geoKeyPrimeMeridian       = 2051
	geoKeyAngularUnits        = 2054
	geoKeyEllipsoid           = 2056
	geoKeySemiMajor           = 2057
	geoKeySemiMinor           = 2058
	geoKeyInvFlattening       = 2059
	geoKeyPrimeMeridianDegree = 2061
	geoKeyToWGS84             = 2062
	geoKeyProjection          = 3074
	geoKeyProjMethod          = 3075
	geoKeyLinearUnits         = 3076
	geoKeyLinearUnitSize      = 3077
	geoKeyStdParallel1        = 3078
	geoKeyStdParallel2        = 3079
	geoKeyNatOriginLong       = 3080
	geoKeyNatOriginLat        = 3081
	geoKeyFalseEasting        = 3082
	geoKeyFalseNorthing       = 3083
	geoKeyFalseOriginLong     = 3084
	geoKeyFalseOriginLat      = 3085
	geoKeyFalseOriginEasting  = 3086
	geoKeyFalseOriginNorthing = 3087
	geoKeyCenterLong          = 3088
	geoKeyCenterLat           = 3089
	geoKeyScaleAtNatOrigin    = 3092
	geoKeyStraightVertPole    = 3095
	geoKeyVerticalCRS         = 4096

	geoDegree = 9102
	geoMetre  = 9001
)

// keyList collects geo keys.
type keyList struct {
	keys    map[uint16][3]uint16 // tag, count, and value or offset
	doubles []float64
	ascii   string
	minor   uint16 // revision of the specification
}

func (l *keyList) short(id uint16, value int) {
	l.keys[id] = [3]uint16{0, 1, uint16(value)}
}

func (l *keyList) double(id uint16, values ...float64) {
	l.keys[id] = [3]uint16{tiff.TagGeoDoubleParams, uint16(len(values)), uint16(len(l.doubles))}
	l.doubles = append(l.doubles, values...)
}

func (l *keyList) text(id uint16, text string) {
	l.keys[id] = [3]uint16{tiff.TagGeoASCIIParams, uint16(len(text) + 1), uint16(len(l.ascii))}
	l.ascii += text + "|"
}

func (l *keyList) build() *raster.GeoKeys {
	k := &raster.GeoKeys{Directory: []uint16{1, 1, l.minor, uint16(len(l.keys))}, Doubles: l.doubles, ASCII: l.ascii}
	for _, id := range slices.Sorted(maps.Keys(l.keys)) {
		v := l.keys[id]
		k.Directory = append(k.Directory, id, v[0], v[1], v[2])
	}
	return k
}

// KeysOfCode returns the keys of a system given only by its code.
func KeysOfCode(code string) (*raster.GeoKeys, error) {
	digits, ok := strings.CutPrefix(strings.ToUpper(code), "EPSG:")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return nil, errors.New("not an EPSG code")
	}
	l := &keyList{keys: map[uint16][3]uint16{}}
	if !l.horizontalCode(n) {
		return nil, errors.New("not the EPSG code of a known projected or geographic system")
	}
	return l.build(), nil
}

// horizontalCode sets the keys of a system of EPSG. It returns false if the code is unknown.
func (l *keyList) horizontalCode(code int) bool {
	model, key := tiff.GeoModelProjected, uint16(tiff.GeoKeyProjectedCRS)
	switch {
	case epsgCodes()["projected"].has(code):
	case epsgCodes()["geographic"].has(code):
		model, key = tiff.GeoModelGeographic, tiff.GeoKeyGeodeticCRS
	default:
		return false
	}
	l.short(tiff.GeoKeyModelType, model)
	l.short(key, code)
	return true
}

// keysOfWKT returns the keys of the system of a WKT: by EPSG codes in WKT of either version, by
// parameters in GDAL's WKT (version 1). It returns an error if keys cannot express the system
// exactly.
func keysOfWKT(text string) (*raster.GeoKeys, error) {
	root, err := wkt.Parse(text)
	if err != nil {
		return nil, err
	}
	l := &keyList{keys: map[uint16][3]uint16{}}
	horizontal, vertical := root.Parts()
	if horizontal == nil {
		return nil, wkt.ErrSyntax
	}
	if vertical != nil {
		code := vertical.EPSG()
		if !epsgCodes()["vertical"].has(code) {
			return nil, fmt.Errorf("vertical system %q has no EPSG code", vertical.Name())
		}
		if err := l.citation(tiff.GeoKeyCitation, root.Name()); err != nil {
			return nil, err
		}
		l.short(geoKeyVerticalCRS, code)
		l.minor = 1 // readers ignore vertical systems before revision 1.1
	}
	if l.horizontalCode(horizontal.EPSG()) {
		return l.build(), nil
	}
	switch horizontal.Keyword {
	case "PROJCS":
		err = l.projected(horizontal, vertical == nil)
	case "GEOGCS":
		l.short(tiff.GeoKeyModelType, tiff.GeoModelGeographic)
		err = l.geographic(horizontal)
	default:
		err = fmt.Errorf("no geo keys exist for a %s without an EPSG code", horizontal.Keyword)
	}
	if err != nil {
		return nil, err
	}
	return l.build(), nil
}

// citation sets a key to a name.
func (l *keyList) citation(id uint16, name string) error {
	if strings.ContainsAny(name, "|\x00") {
		return fmt.Errorf("geo keys cannot hold the name %q", name)
	}
	l.text(id, cmp.Or(name, "unnamed"))
	return nil
}

// geographic sets the keys of a GEOGCS.
func (l *keyList) geographic(n *wkt.Node) error {
	if code := n.EPSG(); epsgCodes()["geographic"].has(code) {
		l.short(tiff.GeoKeyGeodeticCRS, code)
		l.short(geoKeyAngularUnits, geoDegree)
		return nil
	}
	datum, meridian, unit := n.Child("DATUM"), n.Child("PRIMEM"), n.Child("UNIT")
	if datum == nil || meridian == nil || datum.Child("SPHEROID") == nil {
		return errors.New("datum, ellipsoid or prime meridian is missing")
	}
	if n.Child("EXTENSION") != nil || datum.Child("EXTENSION") != nil {
		return errors.New("geo keys cannot hold extensions of the datum")
	}
	if strings.HasPrefix(datum.Name(), "D_") {
		return errors.New("datum has a name of ESRI")
	}
	if err := l.degrees(unit); err != nil {
		return err
	}
	if err := checkAxes(n, "EAST", "NORTH"); err != nil {
		return err
	}
	ellipsoid := datum.Child("SPHEROID")
	for _, name := range []string{n.Name(), datum.Name(), ellipsoid.Name(), meridian.Name()} {
		if strings.ContainsAny(name, "|\x00") {
			return fmt.Errorf("geo keys cannot hold the name %q", name)
		}
	}
	l.short(tiff.GeoKeyGeodeticCRS, tiff.GeoUserDefined)
	l.text(tiff.GeoKeyGeodeticCitation, fmt.Sprintf("GCS Name = %s|Datum = %s|Ellipsoid = %s|Primem = %s|", n.Name(),
		datum.Name(), ellipsoid.Name(), meridian.Name()))
	l.short(geoKeyGeodeticDatum, cmp.Or(datum.EPSG(), tiff.GeoUserDefined))
	l.short(geoKeyEllipsoid, cmp.Or(ellipsoid.EPSG(), tiff.GeoUserDefined))
	major, flattening := ellipsoid.Number(1), ellipsoid.Number(2)
	if !(major > 0) || !(flattening >= 0) || math.IsInf(major, 0) {
		return errors.New("ellipsoid without size")
	}
	l.double(geoKeySemiMajor, major)
	if flattening == 0 {
		l.double(geoKeySemiMinor, major)
	} else {
		l.double(geoKeyInvFlattening, flattening)
	}
	degree := meridian.Number(1)
	if math.IsNaN(degree) {
		return errors.New("prime meridian without longitude")
	}
	if code := meridian.EPSG(); code != 0 {
		l.short(geoKeyPrimeMeridian, code)
	}
	l.double(geoKeyPrimeMeridianDegree, degree)
	if shift := datum.Child("TOWGS84"); shift != nil {
		var values []float64
		for i := range shift.Values {
			values = append(values, shift.Number(i))
		}
		if len(values) != 3 && len(values) != 7 || slices.ContainsFunc(values, math.IsNaN) {
			return errors.New("shift to WGS 84 must have 3 or 7 numbers")
		}
		if len(values) == 7 && slices.Equal(values[3:], make([]float64, 4)) {
			values = values[:3]
		}
		l.double(geoKeyToWGS84, values...)
	}
	return nil
}

// degrees sets the key of the angular unit. It must be degrees, the unit of the projections'
// parameters.
func (l *keyList) degrees(unit *wkt.Node) error {
	if size := unit.Number(1); !(math.Abs(size-math.Pi/180) < 1e-15) {
		return errors.New("angles are not in degrees")
	}
	l.short(geoKeyAngularUnits, geoDegree)
	return nil
}

// checkAxes returns an error if the directions of the axes, in any order, are not those of want,
// which is sorted.
func checkAxes(n *wkt.Node, want ...string) error {
	var got []string
	for _, c := range n.Nodes {
		if c.Keyword == "AXIS" && len(c.Values) > 1 {
			got = append(got, strings.ToUpper(c.Values[1]))
		}
	}
	slices.Sort(got)
	if len(got) > 0 && !slices.Equal(got, want) {
		return fmt.Errorf("axes point to %s", strings.ToLower(strings.Join(got, " and ")))
	}
	return nil
}

// projection holds the number of a projection and the keys of its parameters by their names in WKT.
// The parameters in fixed must have the given value, and may be missing.
type projection struct {
	method int
	keys   map[string]uint16
	fixed  map[string]float64
}

// natural returns a projection with the parameters that most projections have, and more.
func natural(method int, more map[string]uint16) projection {
	p := projection{method: method, keys: map[string]uint16{"latitude_of_origin": geoKeyNatOriginLat,
		"central_meridian": geoKeyNatOriginLong,
		"false_easting":    geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing}}
	for name, key := range more {
		p.keys[name] = key
	}
	return p
}

// centred returns a projection with a centre. latitude, which may be "", and longitude are the
// names of its parameters.
func centred(method int, latitude, longitude string) projection {
	p := projection{method: method, keys: map[string]uint16{longitude: geoKeyCenterLong,
		"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing}}
	if latitude != "" {
		p.keys[latitude] = geoKeyCenterLat
	}
	return p
}

// conic returns a projection with two standard parallels.
func conic(method int) projection {
	return projection{method: method, keys: map[string]uint16{"latitude_of_center": geoKeyNatOriginLat,
		"longitude_of_center": geoKeyNatOriginLong,
		"standard_parallel_1": geoKeyStdParallel1, "standard_parallel_2": geoKeyStdParallel2,
		"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing}}
}

var scaled = map[string]uint16{"scale_factor": geoKeyScaleAtNatOrigin}

// projections are the projections with a number in geo keys, by their names in GDAL's WKT, that
// GDAL reads back unchanged.
var projections = map[string]projection{
	"Transverse_Mercator": natural(1, scaled),
	"Mercator_1SP": {7, map[string]uint16{"latitude_of_origin": geoKeyNatOriginLat,
		"central_meridian": geoKeyNatOriginLong, "scale_factor": geoKeyScaleAtNatOrigin,
		"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing},
		map[string]float64{"latitude_of_origin": 0}},
	"Mercator_2SP": {7, map[string]uint16{"standard_parallel_1": geoKeyStdParallel1,
		"latitude_of_origin": geoKeyNatOriginLat, "central_meridian": geoKeyNatOriginLong,
		"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing},
		map[string]float64{"latitude_of_origin": 0}},
	"Lambert_Conformal_Conic_2SP": {method: 8,
		keys: map[string]uint16{"standard_parallel_1": geoKeyStdParallel1, "standard_parallel_2": geoKeyStdParallel2,
			"latitude_of_origin": geoKeyFalseOriginLat, "central_meridian": geoKeyFalseOriginLong,
			"false_easting": geoKeyFalseOriginEasting, "false_northing": geoKeyFalseOriginNorthing}},
	"Lambert_Conformal_Conic_1SP":  natural(9, scaled),
	"Lambert_Azimuthal_Equal_Area": centred(10, "latitude_of_center", "longitude_of_center"),
	"Albers_Conic_Equal_Area":      conic(11),
	"Azimuthal_Equidistant":        centred(12, "latitude_of_center", "longitude_of_center"),
	"Equidistant_Conic":            conic(13),
	"Polar_Stereographic": {15, map[string]uint16{"latitude_of_origin": geoKeyNatOriginLat,
		"central_meridian": geoKeyStraightVertPole, "scale_factor": geoKeyScaleAtNatOrigin,
		"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing},
		map[string]float64{"scale_factor": 1}},
	"Oblique_Stereographic": natural(16, scaled),
	"Equirectangular": {17, map[string]uint16{"standard_parallel_1": geoKeyStdParallel1,
		"latitude_of_origin": geoKeyCenterLat, "central_meridian": geoKeyCenterLong,
		"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing},
		map[string]float64{"latitude_of_origin": 0}},
	"Cassini_Soldner": natural(18, nil),
	"Gnomonic":        centred(19, "latitude_of_origin", "central_meridian"),
	"Orthographic":    centred(21, "latitude_of_origin", "central_meridian"),
	"Polyconic":       natural(22, nil),
	"Robinson":        centred(23, "", "longitude_of_center"),
	"Sinusoidal":      centred(24, "", "longitude_of_center"),
	"VanDerGrinten":   centred(25, "", "central_meridian"),
	"Cylindrical_Equal_Area": {method: 28,
		keys: map[string]uint16{"standard_parallel_1": geoKeyStdParallel1, "central_meridian": geoKeyNatOriginLong,
			"false_easting": geoKeyFalseEasting, "false_northing": geoKeyFalseNorthing}},
}

// projected sets the keys of a PROJCS from its parameters, and with named also that of its name.
func (l *keyList) projected(n *wkt.Node, named bool) error {
	base, unit := n.Child("GEOGCS"), n.Child("UNIT")
	if base == nil {
		return errors.New("projected system without geographic system")
	}
	method := n.Child("PROJECTION").Name()
	p, ok := projections[method]
	if !ok {
		return fmt.Errorf("no geo key exists for projection %q", method)
	}
	if n.Child("EXTENSION") != nil {
		return errors.New("geo keys cannot hold extensions of the projection")
	}
	axes := []string{"EAST", "NORTH"}
	if method == "Polar_Stereographic" { // away from the pole, on both axes
		axes = []string{"SOUTH", "SOUTH"}
		if p.parameter(n, "latitude_of_origin") < 0 {
			axes = []string{"NORTH", "NORTH"}
		}
	}
	if err := checkAxes(n, axes...); err != nil {
		return err
	}
	if named {
		if err := l.citation(tiff.GeoKeyCitation, n.Name()); err != nil {
			return err
		}
	}
	if err := l.degrees(base.Child("UNIT")); err != nil {
		return err
	}
	if err := l.geographic(base); err != nil {
		return err
	}
	l.short(tiff.GeoKeyModelType, tiff.GeoModelProjected)
	l.short(tiff.GeoKeyProjectedCRS, tiff.GeoUserDefined)
	l.short(geoKeyProjection, tiff.GeoUserDefined)
	l.short(geoKeyProjMethod, p.method)
	switch size := unit.Number(1); {
	case size == 1:
		l.short(geoKeyLinearUnits, geoMetre)
	case size > 0 && !math.IsInf(size, 0) && unit.EPSG() != 0:
		l.short(geoKeyLinearUnits, unit.EPSG())
	default:
		return errors.New("unit of length has no EPSG code")
	}
	for _, c := range n.Nodes {
		if c.Keyword == "PARAMETER" {
			if _, ok := p.keys[strings.ToLower(c.Name())]; !ok {
				return fmt.Errorf("no geo key exists for parameter %q of %s", c.Name(), method)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.keys)) {
		v := p.parameter(n, name)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("parameter %q of %s is missing or not a number", name, method)
		}
		if want, ok := p.fixed[name]; ok && v != want &&
			!(method == "Polar_Stereographic" && math.Abs(p.parameter(n, "latitude_of_origin")) == 90) {
			return fmt.Errorf("parameter %q of %s is %v, but geo keys imply %v", name, method, v, want)
		}
		l.double(p.keys[name], v)
	}
	return nil
}

// parameter returns the value of a parameter. If it is missing, it returns its fixed value, or else
// NaN.
func (p *projection) parameter(n *wkt.Node, name string) float64 {
	for _, c := range n.Nodes {
		if c.Keyword == "PARAMETER" && strings.EqualFold(c.Name(), name) {
			return c.Number(1)
		}
	}
	if v, ok := p.fixed[name]; ok {
		return v
	}
	return math.NaN()
}

//go:embed epsg_codes.txt
var epsgText string

// epsgCodes holds EPSG's codes by kind of system: geographic, projected, vertical.
var epsgCodes = sync.OnceValue(func() map[string]codeList {
	codes, kind := map[string]codeList{}, ""
	for line := range strings.Lines(epsgText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, field := range strings.Fields(line) {
			if name, ok := strings.CutSuffix(field, ":"); ok {
				kind = name
				continue
			}
			first, last, both := strings.Cut(field, "-")
			if !both {
				last = first
			}
			a, _ := strconv.Atoi(first)
			b, _ := strconv.Atoi(last)
			codes[kind] = append(codes[kind], [2]int{a, b})
		}
	}
	return codes
})

// codeList holds ranges of codes in increasing order.
type codeList [][2]int

func (l codeList) has(code int) bool {
	_, ok := slices.BinarySearchFunc(l, code, func(r [2]int, code int) int {
		switch {
		case r[1] < code:
			return -1
		case r[0] > code:
			return 1
		}
		return 0
	})
	return ok
}
