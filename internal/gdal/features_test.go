package gdal

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/raster"
)

// features is a layer in longitudes and latitudes: a triangle, a feature without a geometry and one
// whose texts are missing.
const features = `{"type": "FeatureCollection", "features": [
{"type": "Feature", "id": 7, "properties": {"n": 5000000000, "x": 0.5, "name": "ü", "day": "2024-05-01"},
 "geometry": {"type": "Polygon", "coordinates": [[[3, 45], [3.001, 45], [3, 45.001], [3, 45]]]}},
{"type": "Feature", "id": 9, "properties": {"n": 2, "x": -1, "name": "b", "day": null}, "geometry": null},
{"type": "Feature", "id": 8, "properties": {"n": null, "x": null, "name": null, "day": null},
 "geometry": {"type": "Point", "coordinates": [3, 45]}}
]}`

func TestReadFeatures(t *testing.T) {
	needGDAL(t)
	path := filepath.Join(t.TempDir(), "z.geojson")
	if err := os.WriteFile(path, []byte(features), 0o600); err != nil {
		t.Fatal(err)
	}
	g := raster.Grid{Width: 10, Height: 10, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 10, 0, 4983000, 0, -10}}
	r := VectorRequest{Path: path}
	var fids []int64
	var values [][]any
	var wkb [][]byte
	layer, err := ReadFeatures(t.Context(), r, []string{"N", "x", "name", "day"}, g, func(f *Feature) error {
		fids, values, wkb = append(fids, f.FID), append(values, f.Values), append(wkb, append([]byte(nil), f.WKB...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{7, 9, 8}, fids); diff != "" {
		t.Error(diff)
	}
	want := [][]any{{int64(5000000000), 0.5, "ü", "2024/05/01"}, {int64(2), -1.0, "b", nil}, {nil, nil, nil, nil}}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Integer64", "Real", "String", "Date"}, layer.FieldTypes([]string{"N", "x", "name", "day"})); diff != "" {
		t.Error(diff)
	}
	// A ring of four points in UTM, of which the first is on the central meridian.
	if len(wkb[0]) != 13+4*16 || wkb[0][0] != 1 || wkb[0][1] != 3 || len(wkb[1]) != 0 || wkb[2][1] != 1 {
		t.Fatalf("geometries %x", wkb)
	}
	number := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(wkb[0][13+8*i:])) }
	if x, y := number(0), number(1); math.Abs(x-500000) > 1e-3 || math.Abs(y-4982950.4) > 0.1 {
		t.Errorf("the first vertex is at %v, %v", x, y)
	}
	if dx := number(2) - number(0); math.Abs(dx-78.8) > 0.1 {
		t.Errorf("a thousandth of a degree is %v m", dx)
	}
	mine := errors.New("enough")
	if _, err := ReadFeatures(t.Context(), r, nil, g, func(*Feature) error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
	for text, change := range map[string]func(r *VectorRequest, g *raster.Grid) []string{
		"no attribute m":           func(*VectorRequest, *raster.Grid) []string { return []string{"m"} },
		"has no georeference":      func(_ *VectorRequest, g *raster.Grid) []string { g.HasTransform = false; return nil },
		"there is no layer 5":      func(r *VectorRequest, _ *raster.Grid) []string { r.Layer = "5"; return nil },
		"the raster names no coor": func(_ *VectorRequest, g *raster.Grid) []string { g.CRS = raster.CRS{}; return nil },
		"expected no layer":        func(r *VectorRequest, _ *raster.Grid) []string { r.Layer, r.SQL = "0", "SELECT 1"; return nil },
	} {
		r, g := r, g
		attributes := change(&r, &g)
		_, err := ReadFeatures(t.Context(), r, attributes, g, func(*Feature) error { return nil })
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
