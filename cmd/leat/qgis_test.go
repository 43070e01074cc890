package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// qgisScript opens rasters in QGIS and prints what it shows of each.
const qgisScript = `
import json, os, sys
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from qgis.core import Qgis, QgsApplication, QgsPalettedRasterRenderer, QgsRasterLayer
application = QgsApplication([], False)
application.initQgis()
result = {}
for path in sys.argv[1:]:
    layer = QgsRasterLayer(path, os.path.basename(path))
    shown = {"valid": layer.isValid()}
    if layer.isValid():
        provider, renderer = layer.dataProvider(), layer.renderer()
        e = layer.extent()
        shown.update(crs=layer.crs().authid(), size=[layer.width(), layer.height()], bounds=[e.xMinimum(), e.yMinimum(),
            e.xMaximum(), e.yMaximum()], bands=[layer.bandName(i + 1) for i in range(layer.bandCount())],
            renderer=type(renderer).__name__, alpha=renderer.alphaBand())
        if provider.sourceHasNoDataValue(1):
            shown["nodata"] = str(provider.sourceNoDataValue(1))
        if isinstance(renderer, QgsPalettedRasterRenderer):
            shown["legend"] = [[c.label, c.color.name()] for c in renderer.classes()]
        s = provider.bandStatistics(1)
        shown.update(min=s.minimumValue, max=s.maximumValue, mean=s.mean, std=s.stdDev)
    result[os.path.basename(path)] = shown
json.dump(result, sys.stdout)
sys.stdout.flush()
os._exit(0) # QGIS may crash as Python ends
`

// TestQGISOpensEveryKindOfOutput compares what QGIS shows with what leat wrote.
func TestQGISOpensEveryKindOfOutput(t *testing.T) {
	t.Parallel()
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("make test-all opens outputs in QGIS")
	}
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import qgis.core").Run() != nil {
		t.Skip("QGIS is not installed (Debian: apt-get install python3-qgis)")
	}
	page := newPageRun(t)
	page.run(t, "leat demo --size 300 demo && mv demo/B04.tif red.tif && mv demo/B08.tif nir.tif")
	page.run(t, "printf '0 190 160 110 255 bare\\n1 170 210 110 255 sparse\\n2 20 110 40 255 dense\\n' > classes.txt")
	type raster struct {
		Valid          bool
		CRS            string
		Size           []int
		Bounds         []float64
		Bands          []string
		Renderer       string
		Alpha          int
		Nodata         string
		Legend         [][2]string
		Min, Max, Mean float64
		Std            float64
	}
	ndvi, byteOf := "(nir - red) / (nir + red - 2000)", "clip(red / 20, 1, 255)"
	kinds := []struct {
		file, expr, options string
		want                raster
	}{
		{"plain.tif", ndvi, "", raster{Nodata: "nan", Renderer: "QgsSingleBandGrayRenderer", Bands: []string{"Band 1"}}},
		{"cog.tif", ndvi, "--cog", raster{Nodata: "nan", Renderer: "QgsSingleBandGrayRenderer",
			Bands: []string{"Band 1"}}},
		{"nodata.tif", ndvi, "--type int16 --nodata -32768 --scale 0.0001 --names NDVI", raster{Nodata: "-32768.0",
			Renderer: "QgsSingleBandGrayRenderer", Bands: []string{"Band 1: NDVI"}}},
		{"palette.tif", "classify(" + ndvi + ", [0.2, 0.5])", "--thematic --color-table classes.txt", raster{
			Nodata: "255.0", Renderer: "QgsPalettedRasterRenderer", Bands: []string{"Band 1"}, Legend: [][2]string{
				{"bare", "#bea06e"}, {"sparse", "#aad26e"}, {"dense", "#146e28"}}}},
		{"rgba.tif", fmt.Sprintf("[%s, fill(nir / 40, 0), 90, isnodata(red) ? 0 : 255]", "fill("+byteOf+", 0)"),
			"--type uint8 --color-interp red,green,blue,alpha", raster{Renderer: "QgsMultiBandColorRenderer", Alpha: 4,
				Bands: []string{"Band 1", "Band 2", "Band 3", "Band 4"}}},
		{"bands.tif", "[red, nir, nir]", "--names red,nir,again", raster{Nodata: "0.0",
			Renderer: "QgsMultiBandColorRenderer", Bands: []string{"Band 1: red", "Band 2: nir", "Band 3: again"}}},
		{"hfa.img", ndvi, "--format HFA", raster{Nodata: "nan", Renderer: "QgsSingleBandGrayRenderer",
			Bands: []string{"Band 1: Layer_1"}}},
		{"byte.png", byteOf, "--format PNG --type uint8 --nodata 0", raster{Nodata: "0.0",
			Renderer: "QgsSingleBandGrayRenderer", Bands: []string{"Band 1"}}},
		{"ndvi.nc", ndvi, "--format netCDF", raster{Nodata: "nan", Renderer: "QgsSingleBandGrayRenderer",
			Bands: []string{"Band 1"}}},
		{"red.jp2", "red", "--format JP2OpenJPEG --co QUALITY=100 --co REVERSIBLE=YES", raster{Nodata: "0.0",
			Renderer: "QgsSingleBandGrayRenderer", Bands: []string{"Band 1"}}},
	}
	args := []string{"-c", qgisScript}
	for _, k := range kinds {
		page.run(t, fmt.Sprintf("leat apply -q -i red=red.tif -i nir=nir.tif -o o=%s -e '%s' %s", k.file, k.expr, k.options))
		args = append(args, filepath.Join(page.dir, k.file))
	}
	c := exec.CommandContext(t.Context(), python, args...)
	var stderr strings.Builder
	c.Dir, c.Stderr = page.dir, &stderr
	c.Env = append(os.Environ(), "HOME="+page.dir, "XDG_RUNTIME_DIR="+page.dir)
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var shown map[string]raster
	if err := json.Unmarshal(text[strings.IndexByte(string(text), '{'):], &shown); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Max(1, math.Abs(b)) }
	for _, k := range kinds {
		got, want := shown[k.file], k.want
		if !got.Valid || got.CRS != "EPSG:32631" || !slices.Equal(got.Size, []int{300, 300}) ||
			!slices.EqualFunc(got.Bounds, []float64{300000, 4790220, 409800, 4900020}, near) {
			t.Errorf("%s: valid %v, CRS %s, %d pixels, bounds %v", k.file, got.Valid, got.CRS, got.Size, got.Bounds)
		}
		if got.Renderer != want.Renderer || !slices.Equal(got.Bands, want.Bands) || got.Nodata != want.Nodata ||
			want.Alpha > 0 && got.Alpha != want.Alpha || !slices.Equal(got.Legend, want.Legend) {
			t.Errorf("%s: QGIS shows %+v, expected %+v", k.file, got, want)
		}
		var count, sum, squares float64
		least, most := math.Inf(1), math.Inf(-1)
		values, _ := pixels(t, filepath.Join(page.dir, k.file))
		if k.file == "nodata.tif" { // QGIS applies the scale
			for i := range values {
				values[i] *= 0.0001
			}
		}
		for _, v := range values {
			if v == v {
				count, sum, squares = count+1, sum+v, squares+v*v
				least, most = min(least, v), max(most, v)
			}
		}
		mean := sum / count
		if std := math.Sqrt(squares/count - mean*mean); count < 1000 || !near(got.Min, least) || !near(got.Max, most) ||
			!near(got.Mean, mean) || math.Abs(got.Std-std) > 1e-3*std {
			t.Errorf("%s: QGIS shows %v to %v, mean %v, deviation %v; expected %v to %v, %v, %v", k.file, got.Min, got.Max,
				got.Mean, got.Std, least, most, mean, std)
		}
	}
}
