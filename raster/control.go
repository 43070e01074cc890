package raster

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// GCPs are ground control points: places of a raster that has no transform in general. They are
// never changed once they are made.
type GCPs struct {
	Points []GCP
	CRS    CRS // of X and Y; zero where the file names none
}

// GCP is a ground control point: a pixel coordinate, as [Transform] takes it, and its place.
type GCP struct {
	ID, Info    string
	Pixel, Line float64 // column and row
	X, Y, Z     float64
}

// Shift returns the points of a window whose upper left pixel is (col, row). g may be nil.
func (g *GCPs) Shift(col, row int) *GCPs {
	if g == nil || col == 0 && row == 0 {
		return g
	}
	s := &GCPs{Points: slices.Clone(g.Points), CRS: g.CRS}
	for i := range s.Points {
		s.Points[i].Pixel -= float64(col)
		s.Points[i].Line -= float64(row)
	}
	return s
}

// Equal reports whether both name the same places in the same system, whatever the points are
// called. Either may be nil.
func (g *GCPs) Equal(o *GCPs) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.CRS.Equal(o.CRS) && slices.EqualFunc(g.Points, o.Points, func(a, b GCP) bool {
		a.ID, a.Info, b.ID, b.Info = "", "", "", ""
		return a == b
	})
}

// Finite reports whether all numbers of the points are finite.
func (g *GCPs) Finite() bool {
	for _, p := range g.Points {
		for _, v := range [5]float64{p.Pixel, p.Line, p.X, p.Y, p.Z} {
			if v-v != 0 {
				return false
			}
		}
	}
	return true
}

// RPC holds rational polynomial coefficients, by which longitude, latitude and height on WGS 84
// give the row and column of a pixel's centre (NITF's RPC00B, and the TIFF tag
// RPCCoefficientTag). It is never changed once it is made.
type RPC struct {
	ErrBias, ErrRand float64 // in metres; -1 where they are not known

	LineOff, SampOff, LatOff, LongOff, HeightOff           float64
	LineScale, SampScale, LatScale, LongScale, HeightScale float64

	LineNum, LineDen, SampNum, SampDen [20]float64
}

// rpcCount is how many numbers an RPC has.
const rpcCount = 92

// RPCOf makes an RPC of the values of a RPCCoefficientTag. They must be finite.
func RPCOf(values []float64) (*RPC, error) {
	if len(values) != rpcCount {
		return nil, fmt.Errorf("%d numbers: expected %d", len(values), rpcCount)
	}
	for _, v := range values {
		if v-v != 0 {
			return nil, fmt.Errorf("%v among the numbers: expected finite ones", v)
		}
	}
	r := new(RPC)
	for i, p := range r.scalars() {
		*p.value = values[i]
	}
	for i, p := range r.polynomials() {
		copy(p.values[:], values[12+20*i:])
	}
	return r, nil
}

// Values returns the numbers in the order of the RPCCoefficientTag.
func (r *RPC) Values() []float64 {
	v := make([]float64, 0, rpcCount)
	for _, p := range r.scalars() {
		v = append(v, *p.value)
	}
	for _, p := range r.polynomials() {
		v = append(v, p.values[:]...)
	}
	return v
}

type rpcScalar struct {
	key   string // in GDAL's metadata domain RPC
	value *float64
}

// scalars lists the single numbers in the order of the tag.
func (r *RPC) scalars() []rpcScalar {
	return []rpcScalar{{"ERR_BIAS", &r.ErrBias}, {"ERR_RAND", &r.ErrRand}, {"LINE_OFF", &r.LineOff},
		{"SAMP_OFF", &r.SampOff}, {"LAT_OFF", &r.LatOff}, {"LONG_OFF", &r.LongOff}, {"HEIGHT_OFF", &r.HeightOff},
		{"LINE_SCALE", &r.LineScale}, {"SAMP_SCALE", &r.SampScale}, {"LAT_SCALE", &r.LatScale},
		{"LONG_SCALE", &r.LongScale}, {"HEIGHT_SCALE", &r.HeightScale}}
}

type rpcPolynomial struct {
	key    string
	values *[20]float64
}

func (r *RPC) polynomials() []rpcPolynomial {
	return []rpcPolynomial{{"LINE_NUM_COEFF", &r.LineNum}, {"LINE_DEN_COEFF", &r.LineDen},
		{"SAMP_NUM_COEFF", &r.SampNum}, {"SAMP_DEN_COEFF", &r.SampDen}}
}

// Items returns the items of GDAL's metadata domain RPC, of numbers of 15 digits.
func (r *RPC) Items() map[string]string {
	m := map[string]string{}
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', 15, 64) }
	for _, p := range r.scalars() {
		m[p.key] = text(*p.value)
	}
	for _, p := range r.polynomials() {
		words := make([]string, len(p.values))
		for i, v := range p.values {
			words[i] = text(v)
		}
		m[p.key] = strings.Join(words, " ")
	}
	return m
}

// ParseRPC reads the items of GDAL's metadata domain RPC. All but ERR_BIAS and ERR_RAND must be
// there; others are ignored.
func ParseRPC(items map[string]string) (*RPC, error) {
	r := &RPC{ErrBias: -1, ErrRand: -1}
	for i, p := range r.scalars() {
		text, ok := items[p.key]
		if !ok && i < 2 {
			continue
		}
		if err := parserpcCount(p.key, text, p.value); err != nil {
			return nil, err
		}
	}
	for _, p := range r.polynomials() {
		var to [20]*float64
		for i := range to {
			to[i] = &p.values[i]
		}
		if err := parserpcCount(p.key, items[p.key], to[:]...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// parserpcCount reads as many numbers as there are places for them. Some writers put a unit behind
// a single one.
func parserpcCount(key, text string, to ...*float64) error {
	words := strings.Fields(text)
	if len(words) < len(to) || len(to) > 1 && len(words) > len(to) {
		return fmt.Errorf("%s has %d numbers: expected %d", key, len(words), len(to))
	}
	for i, p := range to {
		v, err := strconv.ParseFloat(words[i], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s has %q: expected a finite number", key, words[i])
		}
		*p = v
	}
	return nil
}

// Shift returns the coefficients of a window whose upper left pixel is (col, row). r may be nil.
func (r *RPC) Shift(col, row int) *RPC {
	if r == nil || col == 0 && row == 0 {
		return r
	}
	s := *r
	s.LineOff -= float64(row)
	s.SampOff -= float64(col)
	return &s
}

// Equal reports whether all numbers are the same. Either may be nil.
func (r *RPC) Equal(o *RPC) bool {
	return r == o || r != nil && o != nil && *r == *o
}
