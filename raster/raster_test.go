package raster

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get reads a tile whose bytes all equal its column.
func TestCRSEqualIgnoresCitations(t *testing.T) {
	keys := func(code uint16, citation string) *GeoKeys {
		return &GeoKeys{Directory: []uint16{1, 1, 0, 3, 1024, 0, 1, 1, 1026, 34737, uint16(len(citation)), 0, 3072, 0,
			1, code}, ASCII: citation}
	}
	a, b := CRS{Keys: keys(32631, "UTM 31N|")}, CRS{Keys: keys(32631, "zone 31|")}
	if !a.Equal(b) {
		t.Error("citations were compared")
	}
	if a.Equal(CRS{Keys: keys(32632, "UTM 31N|")}) {
		t.Error("another code is the same system")
	}
	if !(CRS{Code: "EPSG:1", Keys: a.Keys}).Equal(CRS{Code: "EPSG:1"}) {
		t.Error("codes were not compared")
	}
	if a.Equal(CRS{}) || !(CRS{}).Equal(CRS{Keys: &GeoKeys{Directory: []uint16{1, 1, 0, 0}}}) {
		t.Error("no system at all is compared wrongly")
	}
	damaged := CRS{Keys: &GeoKeys{Directory: []uint16{1, 1, 0, 9, 2048, 34736, 5, 60000}}}
	if damaged.Equal(a) {
		t.Error("damaged keys are a system")
	}
}

func TestTransformInvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := Transform{rapid.Float64Range(-1e6, 1e6).Draw(t, "x"), 30, 0.5, rapid.Float64Range(-1e6, 1e6).Draw(t, "y"),
			0.25, -30}
		c, r := rapid.Float64Range(-1e4, 1e4).Draw(t, "col"), rapid.Float64Range(-1e4, 1e4).Draw(t, "row")
		x, y := tr.Apply(c, r)
		c2, r2, ok := tr.Invert(x, y)
		if !ok || c2-c > 1e-6 || c-c2 > 1e-6 || r2-r > 1e-6 || r-r2 > 1e-6 {
			t.Fatalf("%v,%v became %v,%v", c, r, c2, r2)
		}
	})
	if _, _, ok := (Transform{}).Invert(1, 1); ok {
		t.Error("a degenerate transform was inverted")
	}
}
