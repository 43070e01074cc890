package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/internal/gdal"
	"leat/internal/rastertest"
	"leat/ndarray"
	"leat/raster"
)

func TestInfoText(t *testing.T) {
	path := sharedData(t, "rasterio/RGB.byte.tif")
	var b strings.Builder
	if err := runInfo(t.Context(), &b, (&storeFlags{}).stores(nil), []string{path}, false, false); err != nil {
		t.Fatal(err)
	}
	want := path + `
  size        791 x 718 pixels, 3 bands of uint8
  file        GeoTIFF, 1.7 MiB
  pixel size  300.0379267 x 300.0417827
  crs         EPSG:32618 (WGS 84 / UTM zone 18N)
  bounds      x 101985 to 339315, y 2611485 to 2826915
  stored      strips of 3 rows, not compressed, by pixel
  overviews   none
  nodata      0
  cog         no: its first directory is not at the head of the file
  band 1      red; min 0, max 255, mean 29.9477, std dev 52.3409
  band 2      green; min 0, max 255, mean 44.5161, std dev 56.9343
  band 3      blue; min 0, max 255, mean 48.1131, std dev 60.1128
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestInfoHasGroundControlPoints(t *testing.T) {
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	path := sharedData(t, "rasterio/RGB.byte.gcp.vrt")
	var b bytes.Buffer
	if err := runInfo(t.Context(), &b, (&storeFlags{}).stores(nil), []string{path}, true, false); err != nil {
		t.Fatal(err)
	}
	var d infoDoc
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if d.CRS != nil || d.Transform != nil || d.GCPs == nil || d.GCPs.CRS == nil || d.GCPs.CRS.Code != "EPSG:4326" ||
		len(d.GCPs.Points) != 4 {
		t.Fatalf("%s", b.Bytes())
	}
	want := infoGCP{ID: "1", Pixel: 7448.5, Line: 11521.5, X: -122.8802747778, Y: 48.91210259316, Z: 89.13533782959}
	if d.GCPs.Points[1] != want {
		t.Errorf("%+v, expected %+v", d.GCPs.Points[1], want)
	}
	b.Reset()
	if err := runInfo(t.Context(), &b, (&storeFlags{}).stores(nil), []string{path}, false, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "  gcps        4, in EPSG:4326") {
		t.Errorf("%s", b.Bytes())
	}
}

func TestSummaryJSONNames(t *testing.T) {
	path := sharedData(t, "landsat8/l8_B4.tif")
	var b bytes.Buffer
	if err := runInfo(t.Context(), &b, (&storeFlags{}).stores(nil), []string{path}, true, false); err != nil {
		t.Fatal(err)
	}
	got := strings.Replace(b.String(), path, "l8_B4.tif", 1)
	golden := filepath.Join("testdata", "info_l8_B4.json")
	want, err := os.ReadFile(golden) // leat info --json l8_B4.tif, checked by hand against gdalinfo 3.6.2
	if err != nil {
		t.Fatal(err)
	}
	var x, y any
	if err := errors.Join(json.Unmarshal(want, &x), json.Unmarshal([]byte(got), &y)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x, y); d != "" {
		t.Errorf("%s\n%s", d, got)
	}
}

func TestInfoContinuesAfterUnreadableFile(t *testing.T) {
	good := sharedData(t, "rasterio/float32.tif")
	bad := filepath.Join(t.TempDir(), "none.tif")
	var b bytes.Buffer
	err := runInfo(t.Context(), &b, (&storeFlags{}).stores(nil), []string{bad, good}, true, false)
	if err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("error %v", err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"path":"`+bad+`","error":`) || !strings.Contains(lines[1],
		`"format":"GTiff"`) {
		t.Errorf("output %s", b.String())
	}
}

func TestInfoLineOfScale(t *testing.T) {
	for want, b := range map[string]infoBand{
		"value = pixel x 0.0001 - 0.1": {bandDoc: bandDoc{Scale: 0.0001, Offset: -0.1}},
		"value = pixel x 2 + 0":        {bandDoc: bandDoc{Scale: 2}},
		"":                             {bandDoc: bandDoc{Scale: 1}},
	} {
		if b.Color = "gray"; b.line() != want {
			t.Errorf("%q, want %q", b.line(), want)
		}
	}
}

func TestComputedStatisticsEqualGDALs(t *testing.T) {
	// gdalinfo -stats of GDAL 3.6.2 on copies.
	for _, c := range []struct {
		file                        string
		band                        int
		min, max, mean, std, valid_ float64
	}{
		{"landsat8/l8_B4.tif", 1, 5941, 23082, 8251.7079276663, 1612.8254712277, 100},
		{"rasterio/float_raster_with_nodata.tif", 1, 0, 0.25, 0.0076530612244898, 0.043066181163607, 62.82},
	} {
		d, err := infoOf(t.Context(), (&storeFlags{}).stores(nil), sharedData(t, c.file), true)
		if err != nil {
			t.Fatal(err)
		}
		s := d.Bands[c.band-1].Statistics
		near := func(got *jsonFloat, want, by float64) bool {
			return got != nil && math.Abs(float64(*got)-want) <= by
		}
		if !near(s.Min, c.min, 0) || !near(s.Max, c.max, 0) || !near(s.Mean, c.mean, 1e-9) || !near(s.StdDev, c.std,
			1e-9) || !near(s.ValidPercent, c.valid_, .005) || !s.Computed {
			t.Errorf("%s: %s", c.file, d.Bands[c.band-1].line())
		}
	}
}

func TestMaskedPixelsAreNotInStatistics(t *testing.T) {
	src := rastertest.NewMem(10, 4, 1, func(_, row, col int) int32 { return int32(col) })
	src.Raster.Mask = raster.MaskDataset
	for range 4 {
		src.Mask = append(src.Mask, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0)
	}
	all, err := computeStats(t.Context(), rastertest.MaskedMem{Mem: src})
	if err != nil {
		t.Fatal(err)
	}
	if s := all[0]; *s.Min != 2 || *s.Max != 5 || *s.Mean != 3.5 || *s.ValidPercent != 40 {
		t.Errorf("min %v max %v mean %v valid %v", *s.Min, *s.Max, *s.Mean, *s.ValidPercent)
	}
	rgba := rastertest.NewMem(4, 1, 4, func(b, _, col int) uint8 {
		if b == 3 {
			return []uint8{0, 255, 1, 0}[col]
		}
		return uint8(10 * col)
	})
	rgba.Raster.Mask, rgba.Raster.Bands[3].Color = raster.MaskAlpha, raster.ColorAlpha
	if all, err = computeStats(t.Context(), rgba); err != nil {
		t.Fatal(err)
	}
	if s := all[0]; *s.Min != 10 || *s.Max != 20 || *s.ValidPercent != 50 {
		t.Errorf("min %v max %v valid %v", *s.Min, *s.Max, *s.ValidPercent)
	}
	if s := all[3]; *s.ValidPercent != 100 {
		t.Errorf("the alpha band is %v %% valid", *s.ValidPercent)
	}
}

func TestFileTextHasNoControlCharacters(t *testing.T) {
	if got := oneLine("a\x1b[2Jb\nc\x7f"); got != "a [2Jb c " {
		t.Errorf("%q", got)
	}
	if got := oneLine(strings.Repeat("é", 500)); len([]rune(got)) != 120 {
		t.Errorf("%d runes", len([]rune(got)))
	}
}

func TestNonFiniteTransformIsWarning(t *testing.T) {
	for _, transform := range []raster.Transform{{math.NaN(), 10, 0, 0, 0, -10}, {0, math.Inf(1), 0, 0, 0, -10},
		{0, 1e308, 0, 0, 0, -10}} {
		grid := raster.Grid{Width: 20, Height: 10, Transform: transform, HasTransform: true}
		d := newInfoDoc(&describedSource{info: raster.Info{Grid: grid,
			Bands: []raster.Band{{Type: ndarray.Uint8, Scale: 1}}}})
		if _, err := json.Marshal(d); err != nil {
			t.Errorf("%v: %v", transform, err)
		}
		if d.Transform != nil || !strings.Contains(strings.Join(d.Warnings, "; "), "gives no finite coordinates") {
			t.Errorf("%v: %v, %q", transform, d.Transform, d.Warnings)
		}
	}
}

// describedSource is a raster that only has a description.
type describedSource struct {
	raster.Source
	info raster.Info
}

func (s *describedSource) Info() *raster.Info { return &s.info }
