package zonaljob

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/apply"
	"leat/internal/gdal"
	"leat/internal/pytest"
	"leat/internal/zonal"
	"leat/ndarray"
	"leat/raster"
)

// readFeatures reads the attributes of files of features, and compares their geometries with the
// zones: RFC 7946 reverses rings.
const readFeatures = `
import json, sys
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
ogr.UseExceptions()
def apart(a, b):
    if len(a) != len(b):
        return 1e9
    return max(abs(p - q) for v, w in zip(a, b) for p, q in zip(v, w))
dir, names = json.load(sys.stdin)
result = {}
for name in names:
    zones = ogr.Open(dir + "/z.geojson")
    source = zones.GetLayer(0)
    data = ogr.Open(dir + "/" + name)
    layer = data.GetLayer(0)
    fields = [layer.GetLayerDefn().GetFieldDefn(i) for i in range(layer.GetLayerDefn().GetFieldCount())]
    turn = osr.CoordinateTransformation(source.GetSpatialRef(), layer.GetSpatialRef())
    rows, worst, again = [], 0, True
    for want in source:
        got = layer.GetFeature(want.GetFID())
        rows.append([None if got.IsFieldNull(i) else got.GetField(i) for i in range(len(fields))])
        a, b = want.GetGeometryRef(), got.GetGeometryRef()
        again = again and a.Equals(b)
        if name.endswith("json"):
            a.Transform(turn)
        a, b = a.GetGeometryRef(0).GetPoints(), b.GetGeometryRef(0).GetPoints()
        worst = max(worst, min(apart(a, b), apart(a, b[::-1])))
    result[name] = [[f.GetName() for f in fields], [f.GetTypeName() for f in fields], rows, worst, again,
                    layer.GetFeatureCount(), layer.GetSpatialRef().GetAuthorityCode(None), layer.GetName()]
json.dump(result, sys.stdout)
`

// featuresJob is testJob with an output of another name.
func featuresJob(t *testing.T, dir, name string, change func(*Options)) (*apply.Job, error) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	job := &apply.Job{Inputs: map[string]apply.Input{"a": apply.File(at("a.tif")), "f": apply.File(at("f.tif"))},
		Controls: apply.Controls{WindowWidth: 64, WindowHeight: 64}, Concurrency: apply.Concurrency{Workers: 2}}
	o := &Options{Path: at(name), Zones: gdal.VectorRequest{Path: at("z.geojson")}, By: []string{"key"},
		Stats: "count,sum,mean,std,max,p12.5,histogram(-9,0,200)", Rule: zonal.ByCoverage,
		Variables: map[string]string{"a": "a", "f": "f * 2"}, Warn: func(string) {}}
	change(o)
	return job, Complete(job, o)
}

func TestFeaturesEqualTable(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 260, 210)
	makeZones(t, dir, 40)
	for _, name := range []string{"t.csv", "t.gpkg", "t.geojson", "t.gpkg", "t.geojson"} {
		job, err := featuresJob(t, dir, name, func(*Options) {})
		if err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(filepath.Join(dir, name))
		if name == "t.gpkg" { // what SQLite would take for a part of the file
			if err := os.WriteFile(filepath.Join(dir, "t.gpkg-wal"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if after := runJob(t, job); name == "t.geojson" && before != nil && !bytes.Equal(before, after) {
			t.Error("the GeoJSON of the same job differs")
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.Contains(e.Name(), "gpkg-") {
			t.Errorf("%s stays", e.Name())
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "t.csv"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]any
	pytest.Run(t, []string{"osgeo"}, readFeatures, []any{dir, []string{"t.gpkg", "t.geojson"}}, &got)
	for name, file := range got {
		columns, rows, empty := file[0].([]any), file[2].([]any), 0
		if fmt.Sprint(columns) != fmt.Sprint(want[0]) || len(rows) != len(want)-1 || file[5] != float64(len(rows)) {
			t.Fatalf("%s: %d rows of %v", name, len(rows), columns)
		}
		if name == "t.gpkg" && (file[4] != true || file[6] != "32632") ||
			name == "t.geojson" && (!(file[3].(float64) < 1e-9) || file[6] != "4326") || file[7] != "zones" {
			t.Errorf("%s: geometries differ by %v, the same: %v, EPSG:%v, layer %v", name, file[3], file[4], file[6],
				file[7])
		}
		for i, row := range rows {
			for k, v := range row.([]any) {
				text := want[i+1][k]
				if v == nil {
					empty++
				}
				if !sameValue(v, text, name == "t.geojson") {
					t.Errorf("%s, row %d, %s: %v, expected %q", name, i, columns[k], v, text)
				}
			}
		}
		if empty == 0 || empty > len(rows)*len(columns)/2 {
			t.Errorf("%s: %d values of %d rows are null", name, empty, len(rows))
		}
	}
}

// sameValue reports whether an attribute is what CSV has, or its first 15 digits; texts are
// histograms.
func sameValue(v any, text string, rounded bool) bool {
	switch v := v.(type) {
	case nil:
		return text == ""
	case float64:
		w, err := strconv.ParseFloat(text, 64)
		return err == nil && (v == w || rounded && math.Abs(v-w) < 5e-15*math.Abs(w))
	case string:
		var got, want map[string]float64
		return json.Unmarshal([]byte(v), &got) == nil && json.Unmarshal([]byte(text), &want) == nil && len(want) > 0 &&
			maps.Equal(got, want)
	}
	return false
}

// makeIntegers writes a raster of 64-bit integers.
func makeIntegers(t *testing.T, dir string, width, height int) string {
	t.Helper()
	path := filepath.Join(dir, "q.tif")
	g := raster.Grid{Width: width, Height: height, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32632"},
		Transform: raster.Transform{500000, 10, 0, 5200000, 0, -10}}
	_, err := apply.Run(t.Context(), apply.Job{Controls: apply.Controls{Grid: &g},
		Outputs: map[string]apply.Output{"q": {Path: path}},
		Func: func(_ context.Context, b *apply.Block) error {
			b.SetOut("q", ndarray.New(ndarray.Int64, 1, b.Window.Height, b.Window.Width))
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFeatureErrors(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 130, 110)
	makeZones(t, dir, 10)
	zones, copied := filepath.Join(dir, "z.geojson"), filepath.Join(dir, "z.csv")
	if err := os.Link(zones, copied); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*Options)
		text   string
	}{
		"raster.gpkg":   {func(o *Options) { o.Raster = new(apply.File(filepath.Join(dir, "a.tif"))) }, "the zones of a raster have no polygons"},
		"z.geojson":     {func(*Options) {}, "it is the file of the zones"},
		"z.csv":         {func(o *Options) { o.Zones.Path = copied }, "it is the file of the zones"},
		"x.shp":         {func(*Options) {}, "expected a name that ends in .csv, .parquet, .geojson or .gpkg"},
		"unsigned.gpkg": {func(o *Options) { o.Variables["f"], o.Stats = "f", "range" }, "the column f_range has unsigned 64-bit integers"},
		"case.gpkg":     {func(o *Options) { o.Variables["A"] = "a" }, "the columns A_count and a_count have the same name in GeoPackage"},
	} {
		job, err := featuresJob(t, dir, name, test.change)
		if name == "unsigned.gpkg" {
			job.Inputs["f"] = apply.File(makeIntegers(t, dir, 130, 110))
		}
		if err == nil {
			_, err = apply.Run(t.Context(), *job)
		}
		if err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil && !strings.HasPrefix(name, "z.") {
			t.Errorf("%s exists", name)
		}
	}
	// The zones change between the two times that they are read.
	for _, name := range []string{"t.csv", "t.gpkg"} {
		makeZones(t, dir, 10)
		job, err := featuresJob(t, dir, name, func(*Options) {})
		if err != nil {
			t.Fatal(err)
		}
		merge := job.Merge
		job.Merge = func(i int, v any) error {
			return errors.Join(merge(i, v), os.WriteFile(zones, nil, 0o600))
		}
		const text = "the zones changed while their statistics were computed"
		_, err = apply.Run(t.Context(), *job)
		if name == "t.csv" && err != nil || name != "t.csv" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%s of other zones: %v", name, err)
		}
	}
}

func TestGeometryTypes(t *testing.T) {
	for want, types := range map[uint32][]byte{3: {3, 3}, 0: {3, 6, 3}, 6: {6}} {
		var z zoneList
		for _, typ := range types {
			z.addType([]byte{1, typ, 0, 0, 0})
			z.addType([]byte{1, byte((1000 + int(typ)) & 255), byte((1000 + int(typ)) >> 8), 0, 0})
		}
		if z.geometry != want {
			t.Errorf("%v: %d", types, z.geometry)
		}
	}
}
