package zonal

import (
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"leat/block"
)

// triangleWKB is the polygon (0 0, 1 0, 0 1, 0 0), little-endian.
const triangleWKB = "01" + "03000000" + "01000000" + "04000000" +
	"0000000000000000" + "0000000000000000" + "000000000000f03f" + "0000000000000000" +
	"0000000000000000" + "000000000000f03f" + "0000000000000000" + "0000000000000000"

func TestParseWKB(t *testing.T) {
	triangle := []float64{0, 0, 1, 0, 0, 1, 0, 0}
	for name, test := range map[string]struct {
		hex   string
		parts int
	}{
		"polygon":       {triangleWKB, 1},
		"with an SRID":  {"01" + "03000020" + "e6100000" + triangleWKB[10:], 1},
		"collection":    {"01" + "07000000" + "02000000" + triangleWKB + triangleWKB, 2},
		"multipolygon":  {"00" + "00000006" + "00000001" + triangleWKB, 1},
		"empty":         {"01" + "03000000" + "00000000", 1},
		"without parts": {"01" + "06000000" + "00000000", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParseWKB(b)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Parts) != test.parts || len(p.XY) > 0 && !slices.Equal(p.XY[:8], triangle) {
				t.Errorf("parsed %v", p)
			}
			for n := range b {
				if _, err := ParseWKB(b[:n]); err == nil {
					t.Errorf("the first %d bytes were parsed", n)
				}
			}
		})
	}
}

func TestParseWKBErrors(t *testing.T) {
	nan := strings.Replace(triangleWKB, "000000000000f03f", "000000000000f87f", 1)
	for name, test := range map[string]struct{ hex, want string }{
		"point":         {"01" + "01000000" + "0000000000000000" + "0000000000000000", "type Point"},
		"line":          {"01" + "02000000" + "00000000", "type LineString"},
		"curve":         {"01" + "0a000000" + "00000000", "type CurvePolygon"},
		"byte order":    {"02" + triangleWKB[2:], "byte order 2"},
		"unknown type":  {"01" + "63000000" + "00000000", "unknown type 99"},
		"member":        {"01" + "06000000" + "01000000" + "01" + "07000000" + "00000000", "GeometryCollection in a MultiPolygon"},
		"NaN":           {nan, "NaN"},
		"rest":          {triangleWKB + "00", "1 bytes follow"},
		"huge count":    {"01" + "03000000" + "ffffffff", "ends early"},
		"huge ring":     {"01" + "03000000" + "01000000" + "ffffffff", "ends early"},
		"nested deeply": {strings.Repeat("01"+"07000000"+"01000000", 20) + triangleWKB, "nested"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseWKB(b)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, expected one with %q", err, test.want)
			}
			var typ *TypeError
			if name == "curve" && (!errors.As(err, &typ) || typ.Type != "CurvePolygon") {
				t.Errorf("error %#v, expected a TypeError", err)
			}
		})
	}
}

func FuzzParseWKB(f *testing.F) {
	b, _ := hex.DecodeString(triangleWKB)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseWKB(b)
		if err != nil {
			return
		}
		if len(p.XY) > len(b)/8 || p.Check() != nil {
			t.Fatalf("%d coordinates of %d bytes, check: %v", len(p.XY), len(b), p.Check())
		}
		var r Rasterizer
		var m Mask
		w := block.Window{Width: 20, Height: 20}
		for _, rule := range []Rule{ByCentre, ByTouch, ByCoverage} {
			r.Cover(p, w, rule, &m)
			shares(&m, w.Width, w.Height) // panics where a pixel appears twice or lies outside
			for _, x := range m.Partials {
				if x.Weight == 0 || x.Weight >= One {
					t.Fatalf("a share of %d", x.Weight)
				}
			}
		}
	})
}

func TestCheckRefusesWhatHasNoPlace(t *testing.T) {
	p := newPolygon([]float64{0, 0, 1, 0, math.Inf(1), 1})
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "vertex 2") {
		t.Errorf("error %v", err)
	}
	for _, p := range []*Polygon{{XY: []float64{1}}, {XY: []float64{1, 2}, Rings: []int{2}, Parts: []int{1}},
		{XY: []float64{1, 2}, Rings: []int{1}}, {XY: []float64{1, 2, 3, 4}, Rings: []int{3, 2}, Parts: []int{2}}} {
		if p.Check() == nil {
			t.Errorf("%v passed", p)
		}
	}
}
