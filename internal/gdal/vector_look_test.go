package gdal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// shapes writes a CSV of geometries without a CRS.
func shapes(t *testing.T, texts ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.csv")
	text := "id,WKT\n"
	for i, s := range texts {
		text += fmt.Sprintf("%d,%q\n", i, s)
	}
	writeFile(t, path, text)
	return path
}

func TestSkippedGeometriesAreErrors(t *testing.T) {
	need(t, "GTiff")
	g := raster.Grid{Width: 40, Height: 40, Transform: raster.Transform{0, 1, 0, 40, 0, -1}, HasTransform: true}
	const (
		square = "((5 5,15 5,15 15,5 15,5 5))"
		circle = "CIRCULARSTRING(5 5,15 15,5 5)"
	)
	for name, c := range map[string]struct{ shape, want string }{
		"a polygon":                    {"POLYGON" + square, ""},
		"one with heights":             {"POLYGON Z((5 5 1,15 5 1,15 15 1,5 5 1))", ""},
		"one with measures":            {"POLYGON ZM((5 5 1 1,15 5 1 1,15 15 1 1,5 5 1 1))", ""},
		"a collection":                 {"GEOMETRYCOLLECTION(POLYGON" + square + ",POINT(1 1))", ""},
		"many points":                  {"MULTIPOINT(1 1,2 2)", ""},
		"an empty curve":               {"CIRCULARSTRING EMPTY", ""},
		"a curve":                      {circle, "Circular String"},
		"a curved polygon":             {"CURVEPOLYGON(" + circle + ")", "Curve Polygon"},
		"one with heights and a curve": {"CURVEPOLYGON Z(CIRCULARSTRING(5 5 1,15 15 1,5 5 1))", "Curve Polygon"},
		"a curve of pieces":            {"COMPOUNDCURVE(" + circle + ",(5 5,20 20))", "Compound Curve"},
		"surfaces":                     {"MULTISURFACE(" + square + ")", "Multi Surface"},
		"curves":                       {"MULTICURVE((5 5,15 15))", "Multi Curve"},
		"a triangle":                   {"TRIANGLE((5 5,15 5,15 15,5 5))", "Triangle"},
		"triangles":                    {"TIN(((5 5,15 5,15 15,5 5)))", "TIN"},
		"a body":                       {"POLYHEDRALSURFACE(" + square + ")", "PolyhedralSurface"},
		"a curve in collections": {"GEOMETRYCOLLECTION(POINT(1 1),GEOMETRYCOLLECTION(CURVEPOLYGON(" + circle +
			")))", "Curve Polygon"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.tif")
			r := VectorRequest{Path: shapes(t, "POINT(30 30)", c.shape)}
			n, err := Rasterize(t.Context(), r, g, path)
			if c.want == "" {
				if err != nil || n.Features < 1 || n.Unplaced != 0 {
					t.Error(n, err)
				}
				return
			}
			holds(t, err, r.Path, "feature 2 is or has a "+c.want, "ogr2ogr -explodecollections -nlt CONVERT_TO_LINEAR")
			if _, err := os.Stat(path); err == nil {
				t.Error("there is a raster")
			}
		})
	}
}

// An attribute of 64 bits is read before the geometries, from the same layer.
func TestGeometriesAreCheckedAfterValues(t *testing.T) {
	need(t, "GTiff")
	g := raster.Grid{Width: 40, Height: 40, Transform: raster.Transform{0, 1, 0, 40, 0, -1}, HasTransform: true}
	for name, c := range map[string]struct{ shape, where, want string }{
		"points":             {"POINT(20 20)", "", ""},
		"a curve":            {"CIRCULARSTRING(5 5,15 15,5 5)", "", "feature 2 is or has a Circular String"},
		"a curve, condition": {"CIRCULARSTRING(5 5,15 15,5 5)", "id > 0", "feature 2 is or has a Circular String"},
	} {
		t.Run(name, func(t *testing.T) {
			r := VectorRequest{Path: filepath.Join(t.TempDir(), "a.csv"), Attribute: "id", Type: ndarray.Float64,
				Where: c.where, Exact: true, OpenOptions: []string{"AUTODETECT_TYPE=YES"}}
			writeFile(t, r.Path, fmt.Sprintf("id,WKT\n5000000000,POINT(30 30)\n5000000001,%q\n", c.shape))
			n, err := Rasterize(t.Context(), r, g, filepath.Join(t.TempDir(), "a.tif"))
			if c.want != "" {
				holds(t, err, c.want)
			} else if err != nil || n.Features != 2 {
				t.Error(n, err)
			}
		})
	}
}

func TestFeaturesOffGridAreCounted(t *testing.T) {
	need(t, "GTiff")
	g := raster.Grid{Width: 20, Height: 20, Transform: raster.Transform{600000, 10000, 0, 6800000, 0, -10000},
		HasTransform: true, CRS: raster.CRS{Code: "EPSG:2154"}}
	dir := t.TempDir()
	feature := func(ring string) string {
		return `{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [[` + ring + `]]}}`
	}
	const here, pole = "[2,46],[5,46],[5,48],[2,48],[2,46]", "[-180,-90],[180,-90],[180,-60],[-180,-60],[-180,-90]"
	burn := func(features ...string) []byte {
		t.Helper()
		r := VectorRequest{Path: filepath.Join(dir, "a.geojson")}
		writeFile(t, r.Path, `{"type": "FeatureCollection", "features": [`+strings.Join(features, ",")+`]}`)
		// Whether PROJ reports a failure depends on earlier transformations.
		for range 2 {
			out := filepath.Join(t.TempDir(), "a.tif")
			n, err := Rasterize(t.Context(), r, g, out)
			if want := int64(len(features) - 1); err != nil || n.Features != want+1 || n.Unplaced != want || want > 0 &&
				n.First != 1 {
				t.Fatal(n, err)
			}
			if _, err := CheckVector(t.Context(), r, g); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(t.TempDir(), "a.tif")
		if _, err := Rasterize(t.Context(), r, g, out); err != nil {
			t.Fatal(err)
		}
		return readAll(t, open(t, out)).Raw()
	}
	alone, among := burn(feature(here)), burn(feature(here), feature(pole), feature(pole))
	count := 0
	for i := range alone {
		if alone[i] != among[i] {
			t.Fatalf("pixel %d is %d, and %d where others are left out", i, alone[i], among[i])
		}
		count += int(alone[i])
	}
	if count == 0 {
		t.Error("nothing was burned")
	}
}
