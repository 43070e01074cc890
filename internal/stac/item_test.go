package stac

import (
	"encoding/json"
	"math"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"leat/ndarray"
	"leat/raster"
)

func scalar(t *testing.T, text string, dt ndarray.DType) *ndarray.Scalar {
	t.Helper()
	s, err := ndarray.ParseScalar(text, dt)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// decode checks what the specification requires of every item, and returns it.
func decode(t *testing.T, it *Item) map[string]any {
	t.Helper()
	text, err := it.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	CheckItem(t, d)
	return d
}

func TestItemHasFieldsOfSpecification(t *testing.T) {
	day := time.Date(2024, 6, 1, 10, 30, 0, 0, time.UTC)
	grid := raster.Grid{Width: 20, Height: 10, HasTransform: true,
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}, CRS: raster.CRS{Code: "EPSG:32633"}}
	f, err := NewFootprint(20, 10, degreeGrid{179.9, 45, 0.01})
	if err != nil {
		t.Fatal(err)
	}
	it := &Item{ID: "a", Start: day, End: day, Grid: grid, Footprint: f, Assets: []Asset{
		{Key: "ndvi", Href: "./ndvi.tif", Format: "GTiff", COG: true, Type: ndarray.Float32, Nodata: scalar(t, "nan", ndarray.Float32),
			Bands: []Band{{Name: "b", Unit: "m", Scale: 0.5, Offset: 3,
				Pixels: 4, Valid: 3, ValidPercent: 75, Min: 1, Max: 3, Mean: 2, StdDev: math.Sqrt(2.0 / 3)}}},
		{Key: "classes", Href: "./classes.png", Format: "PNG", Type: ndarray.Uint64,
			Nodata: scalar(t, "18446744073709551615", ndarray.Uint64), Bands: []Band{{}, {Pixels: 4}}},
		{Key: "c", Href: "./c.tif", Format: "GTiff", Type: ndarray.Complex64, Nodata: scalar(t, "-inf", ndarray.Float32), Bands: []Band{{}}}}}
	d := decode(t, it)
	p := d["properties"].(map[string]any)
	want := map[string]any{"datetime": "2024-06-01T10:30:00Z", "proj:epsg": 32633.0, "proj:shape": []any{10.0, 20.0},
		"proj:transform": []any{10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0},
		"proj:bbox":      []any{500000.0, 4999900.0, 500200.0, 5000000.0}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("properties %v, expected %v", p, want)
	}
	if b := d["bbox"].([]any); b[0].(float64) <= b[2].(float64) {
		t.Errorf("box %v does not cross the antimeridian", b)
	}
	assets := d["assets"].(map[string]any)
	band := func(key string, i int) map[string]any {
		return assets[key].(map[string]any)["raster:bands"].([]any)[i].(map[string]any)
	}
	wantBand := map[string]any{"name": "b", "data_type": "float32", "nodata": "nan", "sampling": "area", "unit": "m",
		"scale": 0.5, "offset": 3.0, "statistics": map[string]any{"minimum": 1.0, "maximum": 3.0, "mean": 2.0,
			"stddev": math.Sqrt(2.0 / 3), "valid_percent": 75.0}}
	if got := band("ndvi", 0); !reflect.DeepEqual(got, wantBand) {
		t.Errorf("band %v, expected %v", got, wantBand)
	}
	if got := band("classes", 0); got["nodata"] != 18446744073709551615.0 || got["statistics"] != nil {
		t.Errorf("band of classes %v", got)
	}
	if got := band("classes", 1)["statistics"]; !reflect.DeepEqual(got, map[string]any{"valid_percent": 0.0}) {
		t.Errorf("statistics without a valid pixel: %v", got)
	}
	if got := band("c", 0); got["data_type"] != "cfloat32" || got["nodata"] != "-inf" {
		t.Errorf("band of complex pixels %v", got)
	}
	for key, typ := range map[string]string{"ndvi": "image/tiff; application=geotiff; profile=cloud-optimized",
		"classes": "image/png", "c": "image/tiff; application=geotiff"} {
		if got := assets[key].(map[string]any)["type"]; got != typ {
			t.Errorf("%s has the media type %v, expected %s", key, got, typ)
		}
	}
}

func TestItemWithoutPlaceAndWithInterval(t *testing.T) {
	day := time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)
	it := &Item{ID: "a", Start: day, End: day.AddDate(0, 1, 0), Grid: raster.Grid{Width: 2, Height: 3, Transform: raster.Identity},
		Assets: []Asset{{Key: "out", Href: "./x.tif", Format: "GTiff", Type: ndarray.Uint8, Bands: []Band{{}}}}}
	d := decode(t, it)
	p := d["properties"].(map[string]any)
	want := map[string]any{"datetime": nil, "start_datetime": "2024-06-01T00:00:00Z", "end_datetime": "2024-07-01T00:00:00Z",
		"proj:epsg": nil, "proj:shape": []any{3.0, 2.0}}
	if !reflect.DeepEqual(p, want) || d["geometry"] != nil {
		t.Errorf("properties %v, geometry %v", p, d["geometry"])
	}
}

func TestHrefsOfFilesAndObjects(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ item, asset, want string }{
		{filepath.Join(dir, "a.json"), filepath.Join(dir, "x y#1.tif"), "./x%20y%231.tif"},
		{filepath.Join(dir, "items/a.json"), filepath.Join(dir, "tif/x.tif"), "../tif/x.tif"},
		{filepath.Join(dir, "a.json"), filepath.Join(dir, "tif", "b:c.tif"), "./tif/b:c.tif"},
		{filepath.Join(dir, "a.json"), "s3://b/x.tif", "s3://b/x.tif"},
		{"s3://b/items/a.json", "s3://b/items/tif/x.tif", "./tif/x.tif"},
		{"s3://b/items/a.json", "s3://b/x.tif", "s3://b/x.tif"},
		{filepath.Join(dir, "a.json"), "https://h/x.tif?X-Amz-Signature=secret", "https://h/x.tif"},
	} {
		got, err := Href(c.item, c.asset)
		if err != nil || got != c.want {
			t.Errorf("%s from %s: %q, %v, expected %q", c.asset, c.item, got, err, c.want)
		}
	}
	if _, err := Href("s3://b/a.json", "x.tif"); err == nil {
		t.Error("an item in a store refers to a local file")
	}
}

func TestTimesOfInputs(t *testing.T) {
	want := time.Date(2022, 1, 17, 10, 43, 43, 0, time.UTC)
	for _, info := range []*raster.Info{
		{Metadata: map[string]string{"TIFFTAG_DATETIME": "2022:01:17 10:43:43"}},
		{Metadata: map[string]string{"TIFFTAG_DATETIME": "2000:01:01 00:00:00"},
			Domains: map[string]map[string]string{"IMAGERY": {"ACQUISITIONDATETIME": "2022-01-17T12:43:43+02:00"}}},
		{Metadata: map[string]string{"ACQUISITIONDATETIME": "no time", "TIFFTAG_DATETIME": "2022-01-17T10:43:43"}},
	} {
		if got, ok := TimeOf(info); !ok || !got.Equal(want) {
			t.Errorf("%v: %v, %v", info.Metadata, got, ok)
		}
	}
	if _, ok := TimeOf(&raster.Info{Metadata: map[string]string{"TIFFTAG_DATETIME": "0000:00:00 00:00:00"}}); ok {
		t.Error("a time without a date counts")
	}
}
