package gdal

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/raster"
)

// copied copies the test features and returns the path of the copy.
func copied(t *testing.T, dir string, r VectorRequest, o *FeatureFile,
	row func(fid int64) ([]any, error)) (string, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "copy"+o.ending()))
	if err != nil {
		t.Fatal(err)
	}
	err = o.Copy(t.Context(), r, f, row)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	checkClean(t, f.Name())
	return f.Name(), err
}

func TestCopyFeatures(t *testing.T) {
	need(t, "GPKG", "GeoJSON")
	dir := t.TempDir()
	source := filepath.Join(dir, "z.geojson")
	writeFile(t, source, features)
	r := VectorRequest{Path: source}
	g := raster.Grid{Width: 10, Height: 10, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{3, 0.001, 0, 46, 0, -0.001}}
	columns := []FeatureColumn{{"FID", FeatureInteger}, {"geom", FeatureText}, {"x", FeatureReal}}
	names := []string{"FID", "geom", "x"}
	rows := map[int64][]any{7: {int64(math.MinInt64), "ü \"q\"", 1.0 / 3}, 9: {nil, nil, nil},
		8: {int64(0), "", math.NaN()}}
	row := func(fid int64) ([]any, error) { return rows[fid], nil }
	type feature struct {
		FID    int64
		WKB    []byte
		Values []any
	}
	read := func(path string, attributes []string) (list []feature, layer *VectorLayer) {
		layer, err := ReadFeatures(t.Context(), VectorRequest{Path: path}, attributes, g, func(f *Feature) error {
			list = append(list, feature{f.FID, append([]byte(nil), f.WKB...), f.Values})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list, layer
	}
	want, _ := read(source, nil)
	for i := range want {
		want[i].Values = append([]any(nil), rows[want[i].FID]...)
	}
	want[2].Values[2] = nil // NaN
	for _, driver := range []string{FormatGeoPackage, FormatGeoJSON} {
		o := &FeatureFile{Driver: driver, Layer: "zones", Columns: columns}
		if err := o.Check(r); err != nil {
			t.Fatal(err)
		}
		path, err := copied(t, dir, r, o, row)
		if err != nil {
			t.Fatal(err)
		}
		got, layer := read(path, names)
		if driver == FormatGeoPackage { // in the order of the FIDs
			got[1], got[2] = got[2], got[1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", driver, diff)
		}
		if layer.Name != "zones" || layer.CRS.Code != "EPSG:4326" {
			t.Errorf("%s: the layer %s in %v", driver, layer.Name, layer.CRS)
		}
		mine := errors.New("enough")
		if _, err := copied(t, dir, r, o, func(int64) ([]any, error) { return nil, mine }); !errors.Is(err, mine) {
			t.Errorf("%s: %v", driver, err)
		}
		for text, values := range map[string][]any{"column x: a value of type string": {nil, nil, "a"},
			"2 values of a feature, expected 3": {nil, nil}, "column FID: a value of type float64": {0.5, nil, nil},
			"column geom: a value of type uint64": {nil, uint64(1), nil}} {
			_, err := copied(t, dir, r, o, func(int64) ([]any, error) { return values, nil })
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, expected %s", driver, err, text)
			}
		}
	}
}

func TestCopyFeaturesInf(t *testing.T) {
	need(t, "GPKG", "GeoJSON")
	dir := t.TempDir()
	source := filepath.Join(dir, "z.geojson")
	writeFile(t, source, features)
	r := VectorRequest{Path: source, Where: "n = 2"}
	for driver, want := range map[string]any{FormatGeoPackage: math.Inf(1), FormatGeoJSON: nil} {
		o := &FeatureFile{Driver: driver, Layer: "zones", Columns: []FeatureColumn{{"x", FeatureReal}, {"y", FeatureReal}}}
		path, err := copied(t, dir, r, o, func(int64) ([]any, error) { return []any{math.Inf(1), 1.5}, nil })
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		g := raster.Grid{Width: 1, Height: 1, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"}}
		if _, err := ReadFeatures(t.Context(), VectorRequest{Path: path}, []string{"x", "y"}, g,
			func(f *Feature) error { got = append(got, f.Values...); return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{want, 1.5}, got); diff != "" {
			t.Errorf("%s: %s", driver, diff)
		}
	}
}

func TestGeoJSONNeedsCRS(t *testing.T) {
	need(t, "GPKG", "GeoJSON", "CSV")
	path := filepath.Join(t.TempDir(), "a.csv")
	writeFile(t, path, "WKT,n\n\"POLYGON ((0 0,1 0,1 1,0 0))\",1\n")
	for driver, text := range map[string]string{FormatGeoJSON: "names no coordinate reference system", FormatGeoPackage: ""} {
		o := &FeatureFile{Driver: driver, Layer: "zones", Columns: []FeatureColumn{{"n", FeatureInteger}}}
		err := o.Check(VectorRequest{Path: path})
		if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", driver, err)
		}
	}
}
