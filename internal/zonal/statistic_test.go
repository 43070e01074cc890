package zonal

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"leat/ndarray"
)

func TestParseErrors(t *testing.T) {
	for list, want := range map[string]string{
		"":                     "empty name",
		"mean,,std":            "empty name",
		"mean,mean":            "twice",
		"p101":                 "p0 to p100",
		"p100.5":               "p0 to p100",
		"p1.2.3":               "p0 to p100",
		"p1234":                "p0 to p100",
		"mean(3)":              "no parameters",
		"histogram(1)":         "two or more",
		"histogram(1,1)":       "above",
		"histogram(1,a)":       `"a"`,
		"histogram(0,1":        "parenthesis",
		"histogram(0,1),sum )": "unknown",
		"Mean":                 "unknown",
	} {
		if _, err := Parse(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, expected one with %q", list, err, want)
		}
	}
	for name, closest := range map[string]string{"majority": "mode", "meann": "mean", "unique": "variety", "xyzxyz": ""} {
		_, err := Parse("count," + name)
		if u := (*UnknownError)(nil); !errors.As(err, &u) || u.Name != name || u.Closest != closest {
			t.Errorf("%s: error %#v, expected the suggestion %q", name, err, closest)
		}
	}
}

func TestColumns(t *testing.T) {
	stats, err := Parse("count, nodata,sum,min,range,mode,p2.5,median,variety,histogram(0,1)")
	if err != nil {
		t.Fatal(err)
	}
	const i, u, f, h = Int64, Uint64, Float64, Histogram
	for _, test := range []struct {
		typ  ndarray.DType
		rule Rule
		want []ColumnType
	}{
		{ndarray.Uint8, ByTouch, []ColumnType{i, i, f, i, i, i, f, f, i, h}},
		{ndarray.Int64, ByCentre, []ColumnType{i, i, f, i, u, i, f, f, i, h}},
		{ndarray.Uint64, ByCentre, []ColumnType{i, i, f, u, u, u, f, f, i, h}},
		{ndarray.Float32, ByCoverage, []ColumnType{f, f, f, f, f, f, f, f, i, h}},
	} {
		s, err := NewSpec(test.typ, test.rule, stats)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range s.Columns() {
			if c.Type != test.want[i] || c.Name != stats[i].Name {
				t.Errorf("%s: column %s has type %d, expected %d", test.typ, c.Name, c.Type, test.want[i])
			}
		}
		// Values have the columns' types, with and without pixels.
		for _, n := range []int{0, 1} {
			var st State
			m := &Mask{}
			if n > 0 {
				m.Runs = []Run{{0, 0, 1}}
			}
			if err := NewCollector(s).Add(&st, m, ndarray.New(test.typ, 1, 1), nil); err != nil {
				t.Fatal(err)
			}
			for i, v := range s.Results(nil, &st) {
				if v.Type != test.want[i] {
					t.Errorf("%s: %s of %d pixels has type %d, expected %d", test.typ, stats[i].Name, n, v.Type, test.want[i])
				}
			}
		}
	}
	plain, _ := Parse("histogram")
	if _, err := NewSpec(ndarray.Float32, ByCentre, plain); err == nil {
		t.Error("a histogram of float32 values without ranges has a spec")
	}
	if _, err := NewSpec(ndarray.Complex64, ByCentre, nil); err == nil {
		t.Error("complex values have a spec")
	}
}

func TestInfiniteValues(t *testing.T) {
	stats, err := Parse("count,nodata,sum,mean,std,min,max,median,p0,p100")
	if err != nil {
		t.Fatal(err)
	}
	inf, nan := math.Inf(1), math.NaN()
	for _, test := range []struct{ values, want []float64 }{
		{[]float64{1, inf, 2, nan}, []float64{3, 1, inf, inf, nan, 1, inf, 2, 1, inf}},
		{[]float64{1, -inf, inf, nan}, []float64{3, 1, nan, nan, nan, -inf, inf, 1, -inf, inf}},
	} {
		for _, shared := range []bool{false, true} {
			s, err := NewSpec(ndarray.Float64, ByCoverage, stats)
			if err != nil {
				t.Fatal(err)
			}
			m := &Mask{Runs: []Run{{0, 0, 4}}}
			if shared { // half of each pixel
				m = &Mask{}
				for c := range 4 {
					m.Partials = append(m.Partials, Partial{0, c, One / 2})
				}
			}
			var st State
			if err := NewCollector(s).Add(&st, m, ndarray.FromSlice(test.values, 1, 4), nil); err != nil {
				t.Fatal(err)
			}
			for i, v := range s.Results(nil, &st) {
				want := test.want[i]
				if shared && i < 2 {
					want /= 2
				}
				if v.Float != want && !(math.IsNaN(v.Float) && math.IsNaN(want)) {
					t.Errorf("%v, shared %v: %s is %v, expected %v", test.values, shared, stats[i].Name, v.Float, want)
				}
			}
		}
	}
}

func TestHistograms(t *testing.T) {
	stats, err := Parse("histogram")
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := Parse("histogram(1, 2.5, 4)")
	if err != nil {
		t.Fatal(err)
	}
	values := ndarray.FromSlice([]int16{-3, 1, 1, 2, 3, 4, 5}, 1, 7)
	m := &Mask{Runs: []Run{{0, 0, 5}, {0, 6, 1}}, Partials: []Partial{{0, 5, One / 4}}}
	bins := func(stats []Statistic) (out [][3]float64) {
		s, err := NewSpec(ndarray.Int16, ByCoverage, stats)
		if err != nil {
			t.Fatal(err)
		}
		var st State
		if err := NewCollector(s).Add(&st, m, values, nil); err != nil {
			t.Fatal(err)
		}
		for _, b := range s.Results(nil, &st)[0].Bins {
			out = append(out, [3]float64{b.Low.AsFloat(), b.High.AsFloat(), b.Count})
		}
		return out
	}
	want := [][3]float64{{-3, -3, 1}, {1, 1, 2}, {2, 2, 1}, {3, 3, 1}, {4, 4, .25}, {5, 5, 1}}
	if got := bins(stats); !slices.Equal(got, want) {
		t.Errorf("by value: %v, expected %v", got, want)
	}
	if got, want := bins(ranges), [][3]float64{{1, 2.5, 3}, {2.5, 4, 1.25}}; !slices.Equal(got, want) {
		t.Errorf("by ranges: %v, expected %v", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	stats, err := Parse(allStatistics)
	if err != nil {
		f.Fatal(err)
	}
	var specs []*Spec
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Float32} {
		s, err := NewSpec(typ, ByCoverage, stats)
		if err != nil {
			f.Fatal(err)
		}
		specs = append(specs, s)
		var st State
		m := &Mask{Runs: []Run{{0, 0, 2}}, Partials: []Partial{{0, 2, One / 3}}}
		if err := NewCollector(s).Add(&st, m, ndarray.New(typ, 1, 3), nil); err != nil {
			f.Fatal(err)
		}
		f.Add(s.Append(nil, &st))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range specs {
			var st, twice State
			rest, err := s.Decode(b, &st)
			if err != nil {
				continue
			}
			again := s.Append(nil, &st)
			if _, err := s.Decode(again, &twice); err != nil {
				t.Fatalf("decoding what was decoded: %v", err)
			}
			_ = rest
			if err := s.Merge(&st, &twice); err == nil {
				s.Results(nil, &st)
			}
		}
	})
}
