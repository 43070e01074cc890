package georef

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"leat/raster"
)

// rpcCount is how many numbers an RPC has.
const rpcCount = 92

// NewRPC makes an RPC of the values of a RPCCoefficientTag. They must be finite.
func NewRPC(values []float64) (*raster.RPC, error) {
	if len(values) != rpcCount {
		return nil, fmt.Errorf("%d numbers: expected %d", len(values), rpcCount)
	}
	for _, v := range values {
		if v-v != 0 {
			return nil, fmt.Errorf("%v among the numbers: expected finite ones", v)
		}
	}
	r := new(raster.RPC)
	for i, p := range scalars(r) {
		*p.value = values[i]
	}
	for i, p := range polynomials(r) {
		copy(p.values[:], values[12+20*i:])
	}
	return r, nil
}

// RPCValues returns the numbers of r in the order of the RPCCoefficientTag.
func RPCValues(r *raster.RPC) []float64 {
	v := make([]float64, 0, rpcCount)
	for _, p := range scalars(r) {
		v = append(v, *p.value)
	}
	for _, p := range polynomials(r) {
		v = append(v, p.values[:]...)
	}
	return v
}

type rpcScalar struct {
	key   string // in GDAL's metadata domain RPC
	value *float64
}

// scalars lists the single numbers in the order of the tag.
func scalars(r *raster.RPC) []rpcScalar {
	return []rpcScalar{{"ERR_BIAS", &r.ErrBias}, {"ERR_RAND", &r.ErrRand}, {"LINE_OFF", &r.LineOff},
		{"SAMP_OFF", &r.SampOff}, {"LAT_OFF", &r.LatOff}, {"LONG_OFF", &r.LongOff}, {"HEIGHT_OFF", &r.HeightOff},
		{"LINE_SCALE", &r.LineScale}, {"SAMP_SCALE", &r.SampScale}, {"LAT_SCALE", &r.LatScale},
		{"LONG_SCALE", &r.LongScale}, {"HEIGHT_SCALE", &r.HeightScale}}
}

type rpcPolynomial struct {
	key    string
	values *[20]float64
}

func polynomials(r *raster.RPC) []rpcPolynomial {
	return []rpcPolynomial{{"LINE_NUM_COEFF", &r.LineNum}, {"LINE_DEN_COEFF", &r.LineDen},
		{"SAMP_NUM_COEFF", &r.SampNum}, {"SAMP_DEN_COEFF", &r.SampDen}}
}

// RPCItems returns the items of GDAL's metadata domain RPC, of numbers of 15 digits.
func RPCItems(r *raster.RPC) map[string]string {
	m := map[string]string{}
	text := func(v float64) string { return strconv.FormatFloat(v, 'g', 15, 64) }
	for _, p := range scalars(r) {
		m[p.key] = text(*p.value)
	}
	for _, p := range polynomials(r) {
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
func ParseRPC(items map[string]string) (*raster.RPC, error) {
	r := &raster.RPC{ErrBias: -1, ErrRand: -1}
	for i, p := range scalars(r) {
		text, ok := items[p.key]
		if !ok && i < 2 {
			continue
		}
		if err := parserpcCount(p.key, text, p.value); err != nil {
			return nil, err
		}
	}
	for _, p := range polynomials(r) {
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

// EqualRPC reports whether all numbers are the same. Either may be nil.
func EqualRPC(r, o *raster.RPC) bool {
	return r == o || r != nil && o != nil && *r == *o
}
