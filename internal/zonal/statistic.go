package zonal

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/internal/suggest"
	"leat/ndarray"
)

// statKind is what a statistic computes.
type statKind uint8

const (
	statCount statKind = iota
	statNodata
	statSum
	statMean
	statMin
	statMax
	statRange
	statStd
	statVar
	statVariety
	statMode
	statMinority
	statPercentile
	statHistogram
)

var statNames = map[string]statKind{"count": statCount, "nodata": statNodata, "sum": statSum, "mean": statMean,
	"min": statMin, "max": statMax, "range": statRange, "std": statStd, "var": statVar, "variety": statVariety,
	"mode": statMode, "minority": statMinority, "median": statPercentile, "histogram": statHistogram}

// aliases maps names that other programs use to those that errors suggest.
var aliases = map[string]string{"majority": "mode", "unique": "variety", "stdev": "std", "stddev": "std",
	"variance": "var", "average": "mean", "minimum": "min", "maximum": "max", "quantile": "percentile"}

// Names returns the names of the statistics in alphabetical order, with p90 for the percentiles p0
// to p100. A histogram of ranges is written histogram(0, 0.5, 1).
func Names() []string {
	names := []string{"p90"}
	for n := range statNames {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Statistic is one number, or one histogram, per zone.
type Statistic struct {
	Name string // as written, and the name of the column
	kind statKind
	// The percentile is num/den of the way from the least to the greatest value.
	num, den int64
	edges    []float64 // of a histogram's bins; nil: one bin per value
}

// UnknownError is returned for a statistic that does not exist.
type UnknownError struct {
	Name    string
	Closest string // the statistic that was probably meant, or ""
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown statistic %q, expected one of %s", e.Name, strings.Join(Names(), ", "))
}

// Parse reads a list of statistics separated by commas, such as "mean,std,p90,histogram(0,0.5,1)".
// It returns an [UnknownError] for a name that does not exist.
func Parse(list string) ([]Statistic, error) {
	var stats []Statistic
	for _, text := range splitList(list) {
		s, err := parseOne(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(stats, func(o Statistic) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("statistic %s appears twice", s.Name)
		}
		stats = append(stats, s)
	}
	return stats, nil
}

// splitList splits at the commas outside parentheses.
func splitList(list string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			parts = append(parts, list[start:i])
			start = i + 1
		}
	}
	return append(parts, list[start:])
}

func parseOne(text string) (Statistic, error) {
	name, args, hasArgs := strings.Cut(text, "(")
	s := Statistic{Name: text, num: 1, den: 2}
	if hasArgs && name != "histogram" {
		if _, ok := statNames[name]; ok {
			return s, fmt.Errorf("statistic %s takes no parameters, found %q", name, text)
		}
	}
	if hasArgs && name == "histogram" {
		args, closed := strings.CutSuffix(args, ")")
		if !closed {
			return s, fmt.Errorf("statistic %q: no closing parenthesis", text)
		}
		s.Name, s.kind = name, statHistogram
		for _, f := range strings.Split(args, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
			if err != nil || math.IsNaN(v) {
				return s, fmt.Errorf("statistic %q: edge %q is not a number", text, strings.TrimSpace(f))
			}
			if n := len(s.edges); n > 0 && v <= s.edges[n-1] {
				return s, fmt.Errorf("statistic %q: edge %v does not lie above %v", text, v, s.edges[n-1])
			}
			s.edges = append(s.edges, v)
		}
		if len(s.edges) < 2 {
			return s, fmt.Errorf("statistic %q: one edge, expected two or more", text)
		}
		return s, nil
	}
	if k, ok := statNames[text]; ok {
		s.kind = k
		return s, nil
	}
	if digits, ok := strings.CutPrefix(text, "p"); ok && digits != "" && strings.Trim(digits, "0123456789.") == "" {
		num, den, err := decimal(digits)
		if err != nil || num > 100*den {
			return s, fmt.Errorf("statistic %q: expected a percentile from p0 to p100, with up to nine decimals", text)
		}
		s.kind, s.num, s.den = statPercentile, num, 100*den
		return s, nil
	}
	if text == "" {
		return s, fmt.Errorf("empty name in the list of statistics")
	}
	closest, ok := aliases[strings.ToLower(text)]
	if !ok {
		closest = suggest.Closest(text, Names())
	}
	return s, &UnknownError{text, closest}
}

// decimal returns a number such as 2.5 as a fraction.
func decimal(text string) (num, den int64, err error) {
	whole, frac, _ := strings.Cut(text, ".")
	if len(whole) > 3 || len(frac) > 9 || len(whole)+len(frac) == 0 {
		return 0, 0, strconv.ErrRange
	}
	num, err = strconv.ParseInt(whole+frac, 10, 64)
	den = 1
	for range len(frac) {
		den *= 10
	}
	return num, den, err
}

// Spec is what to compute of one value: its type, the pixels' weights, and the statistics.
type Spec struct {
	typ    ndarray.DType
	kind   kind
	shares bool // pixels have weights
	stats  []Statistic

	sum, squares, extremes, values bool // what a State holds
}

// NewSpec returns the specification of statistics of values of type t. Float16 and complex values,
// and histograms of floating-point values without ranges, are errors.
func NewSpec(t ndarray.DType, rule Rule, stats []Statistic) (*Spec, error) {
	k, err := kindOf(t)
	if err != nil {
		return nil, err
	}
	s := &Spec{typ: t, kind: k, shares: rule == ByCoverage, stats: slices.Clone(stats)}
	for _, st := range stats {
		switch st.kind {
		case statSum, statMean:
			s.sum = true
		case statStd, statVar:
			s.sum, s.squares = true, true
		case statMin, statMax, statRange:
			s.extremes = true
		case statVariety, statMode, statMinority, statPercentile, statHistogram:
			s.values = true
		}
		if st.kind == statHistogram && st.edges == nil && t.IsFloat() {
			return nil, fmt.Errorf("statistic %s of %s values: expected ranges, as in histogram(0, 0.5, 1)", st.Name, t)
		}
	}
	return s, nil
}

// KeepsValues reports whether a zone's state holds all of its distinct values, as percentiles,
// variety, mode, minority and histogram need. Other states have a bounded size.
func (s *Spec) KeepsValues() bool { return s.values }

// PixelBytes estimates the memory that a Collector and the encoded states of this number of bands
// take for each pixel of a window.
func (s *Spec) PixelBytes(bands int) int64 {
	if !s.values {
		return 0
	}
	entry := int64(s.typ.Size()) + 3
	if s.shares {
		entry += 6 // weight
	}
	n := int64(2+bands) * entry // run, state and encodings
	if s.typ.Size() > 2 {
		n += 16 // keys, which are sorted in two slices
	}
	return n
}

// Column is the name and the type of a statistic.
type Column struct {
	Name string
	Type ColumnType
}

// Columns returns the statistics' columns, in the order of the statistics.
func (s *Spec) Columns() []Column {
	columns := make([]Column, len(s.stats))
	for i, st := range s.stats {
		columns[i] = Column{st.Name, s.columnType(st.kind)}
	}
	return columns
}

func (s *Spec) columnType(k statKind) ColumnType {
	switch k {
	case statCount, statNodata:
		if !s.shares {
			return Int64
		}
	case statVariety:
		return Int64
	case statMin, statMax, statMode, statMinority:
		return s.kind.value(0).Type
	case statRange:
		switch s.kind {
		case signedKind, uint64Kind:
			if s.typ.Size() == 8 {
				return Uint64
			}
			return Int64
		}
	case statHistogram:
		return Histogram
	}
	return Float64
}
