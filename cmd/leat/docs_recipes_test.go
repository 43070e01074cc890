package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leat/internal/pytest"
)

func TestRecipesRun(t *testing.T) {
	t.Parallel()
	page := runPage(t, "recipes.md")
	at := func(name string) string { return filepath.Join(page.dir, name) }
	var dates [][3][]float64
	paths, err := filepath.Glob(at("demo/2024-*"))
	if err != nil || len(paths) != 6 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		var d [3][]float64
		for i, name := range []string{"B04.tif", "B08.tif", "SCL.tif"} {
			d[i], _ = pixels(t, filepath.Join(p, name))
		}
		dates = append(dates, d)
	}
	ndviOf := func(d [3][]float64, i int) float64 {
		if !(d[2][i] >= 4 && d[2][i] <= 6) {
			return math.NaN()
		}
		// leat computes with float32, whose results the medians are.
		return float64(float32(d[1][i]-d[0][i]) / float32(d[1][i]+d[0][i]-2000))
	}
	median, _ := pixels(t, at("median.tif"))
	for i := range median {
		var valid []float64
		for _, d := range dates {
			if v := ndviOf(d, i); v == v {
				valid = append(valid, v)
			}
		}
		slices.Sort(valid)
		want, n := math.NaN(), len(valid)
		if n > 0 {
			want = float64(float32((valid[(n-1)/2] + valid[n/2]) / 2))
		}
		if !same(median[i], want) {
			t.Fatalf("median of pixel %d: %v, expected %v", i, median[i], want)
		}
	}
	change, _ := pixels(t, at("change.tif"))
	for i := range change {
		if want := ndviOf(dates[5], i) - ndviOf(dates[0], i); !same(change[i], float64(float32(want))) {
			t.Fatalf("change of pixel %d: %v, expected %v", i, change[i], want)
		}
	}
	checkZonal(t, page.dir)
	small, _ := pixels(t, at("small.tif"))
	classes, _ := pixels(t, at("classes.tif"))
	for i, v := range median {
		if (v == v) != (small[i] == small[i]) || math.Abs(small[i]*1e-4-v) > 0.51e-4 {
			t.Fatalf("scaled pixel %d: %v of %v", i, small[i], v)
		}
		want := 2.0
		if v < 0.2 {
			want = 0
		} else if v < 0.5 {
			want = 1
		}
		if v == v && classes[i] != want {
			t.Fatalf("class of pixel %d: %v of %v", i, classes[i], v)
		}
	}
	compareWithReferences(t, page)
}

// TestRecipesNeedOnlyLeat checks that each recipe is a command of leat, without those of GDAL.
func TestRecipesNeedOnlyLeat(t *testing.T) {
	t.Parallel()
	for _, commands := range shellBlocks(t, "recipes.md") {
		if strings.Contains(commands, "gdal") {
			t.Errorf("a recipe needs programs of GDAL:\n%s", commands)
		}
		if strings.Contains(commands, "loss.gpkg") && strings.Count(commands, "leat ") != 1 {
			t.Errorf("a recipe of polygons is not one command:\n%s", commands)
		}
	}
}

// checkZonal checks the table of the polygons of the threshold, which have at least ten pixels.
func checkZonal(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "loss.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 || !slices.Equal(rows[0], []string{"fid", "count", "mean", "p10"}) {
		t.Fatalf("%q: %v", rows, err)
	}
	var got [][2]float64
	for _, row := range rows[1:] {
		count, err1 := strconv.ParseFloat(row[1], 64)
		mean, err2 := strconv.ParseFloat(row[2], 64)
		if err1 != nil || err2 != nil {
			t.Fatal(row)
		}
		got = append(got, [2]float64{count, mean * count})
	}
	change, width := pixels(t, filepath.Join(dir, "change.tif"))
	want := patches(change, width, func(v float64) bool { return v < float64(float32(-0.3)) }, 10)
	for _, list := range [][][2]float64{got, want} {
		slices.SortFunc(list, func(a, b [2]float64) int {
			return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
		})
	}
	if !slices.EqualFunc(got, want, func(a, b [2]float64) bool {
		return a[0] == b[0] && math.Abs(a[1]-b[1]) <= 1e-9*math.Abs(b[1])
	}) {
		t.Errorf("pixels and sums %v, expected %v", got, want)
	}
}

// patches returns the number of pixels and the sum of each patch of pixels that meet a condition
// and share edges, of those with at least so many pixels.
func patches(values []float64, width int, meets func(v float64) bool, least int) (list [][2]float64) {
	seen := make([]bool, len(values))
	for i := range values {
		var n, sum float64
		for todo := []int{i}; len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if at < 0 || at >= len(values) || seen[at] || !meets(values[at]) {
				continue
			}
			seen[at] = true
			n, sum = n+1, sum+values[at]
			todo = append(todo, at-width, at+width)
			if at%width > 0 {
				todo = append(todo, at-1)
			}
			if at%width < width-1 {
				todo = append(todo, at+1)
			}
		}
		if n >= float64(least) {
			list = append(list, [2]float64{n, sum})
		}
	}
	return list
}

// recipeTruth runs in the directory of the recipes. It makes each result with the tools that people
// use for the task otherwise, and prints for each task what differs.
const recipeTruth = `
import json, os, subprocess, sys
import numpy as np
from osgeo import gdal, ogr
import rasterio
gdal.UseExceptions()
given = json.load(sys.stdin)
os.chdir(given["dir"])

def run(*args):
    subprocess.run([str(a) for a in args], check=True, stdout=subprocess.DEVNULL)

def read(path, band=None):
    with rasterio.open(path) as f:
        return f.read(band) if band else f.read()

def box(path):
    with rasterio.open(path) as f:
        b = f.bounds
        return ["%.17g" % v for v in (b.left, b.bottom, b.right, b.top)], [f.width, f.height], f.crs.to_wkt()

result = {}
def compare(task, got, want, tolerance=0.0):
    got, want = np.asarray(got, "f8"), np.asarray(want, "f8")
    if got.shape != want.shape:
        result[task] = "shapes %s and %s" % (got.shape, want.shape)
        return
    bad = ~((np.abs(got - want) <= tolerance) | (np.isnan(got) & np.isnan(want)))
    some = np.isfinite(want).sum()
    result[task] = ""
    if some <= 1000 or bad.any():
        result[task] = "%d of %d pixels differ, %d are finite" % (bad.sum(), bad.size, some)

median = read("median.tif", 1)

# The classes: NumPy, the colours by gdaldem, the names by GDAL.
classes = read("classes.tif", 1)
valid = ~np.isnan(median)
with rasterio.open("classes.tif") as f:
    want = np.where(valid, np.digitize(median, np.array([0.2, 0.5], "f4")), f.nodata)
    table = f.colormap(1)
compare("classes", classes, want)
run("gdaldem", "color-relief", "-q", "-alpha", "-nearest_color_entry", "classes.tif", "classes.txt", "relief.tif")
colours = np.array([table.get(i, (0, 0, 0, 0)) for i in range(256)])[classes].transpose(2, 0, 1)
compare("colours", np.where(valid, colours, 0), np.where(valid, read("relief.tif"), 0))
names = gdal.Info("classes.tif", format="json")["bands"][0].get("categories", [])
result["names"] = "" if names[:3] == ["bare", "sparse", "dense"] else repr(names)

# Terrain: gdaldem, whose floats round otherwise.
for name, mode, tolerance in ("slope", "slope", 1e-3), ("shade", "hillshade", 1):
    run("gdaldem", mode, "-q", "dem.tif", mode + "-gdaldem.tif")
    with rasterio.open(name + ".tif") as f, rasterio.open(mode + "-gdaldem.tif") as g:
        got, want = (np.where(r.read_masks(1) > 0, r.read(1), np.nan) for r in (f, g))
        compare(name, got, want, tolerance)
        other = np.mean(f.read(1) != g.read(1))
        if name == "shade":
            result["brightness"] = "" if other < 0.001 else "%f of the pixels differ" % other

# The mosaic: gdalwarp of each tile, gdalbuildvrt.
extent, size, crs = box("mosaic.tif")
open("crs.wkt", "w").write(crs)
run("gdalwarp", "-q", "-et", "0", "-ovr", "NONE", "-r", "bilinear", "-wo", "XSCALE=%r" % given["scale"]["x"], "-wo",
    "YSCALE=%r" % given["scale"]["y"], "-t_srs", "crs.wkt", "-te", *extent, "-ts", *size, "east.tif", "east-warped.tif")
run("gdalbuildvrt", "-q", "mosaic.vrt", "east-warped.tif", "west.tif") # the last one is on top
# The grid begins elsewhere than that of west.tif, so coordinates are rounded otherwise.
compare("mosaic", read("mosaic.tif", 1), read("mosaic.vrt", 1), 1e-8)

# The picture with gaps: gdalwarp, whose last file is on top, and what GDAL makes of the alpha band.
run("gdalwarp", "-q", "-dstalpha", "east_rgb.tif", "west_rgb.tif", "picture-gdalwarp.tif")
want = read("picture-gdalwarp.tif")
compare("picture", read("picture.tif"), want)
picture = gdal.Open("picture.tif")
gaps = want[3] == 0
flags = gdal.GMF_PER_DATASET | gdal.GMF_ALPHA
for i in range(3):
    b = picture.GetRasterBand(i + 1)
    v = want[i][~gaps]
    v = [v.min(), v.max(), v.mean(), v.std()]
    if not (gaps.any() and b.GetMaskFlags() == flags and np.array_equal(b.GetMaskBand().ReadAsArray() == 0, gaps) and
            b.GetNoDataValue() is None and np.allclose(b.GetStatistics(False, False), v)):
        result["picture"] += "band %d" % (i + 1)
with rasterio.open("picture.tif") as f:
    result["picture colours"] = " ".join(c.name for c in f.colorinterp).replace("red green blue alpha", "")

# Larger pixels: gdalwarp.
run("gdalwarp", "-q", "-et", "0", "-ovr", "NONE", "-r", "average", "-tap", "-tr", 450, 450, "median.tif", "coarse-gdalwarp.tif")
compare("coarse", read("coarse.tif", 1), read("coarse-gdalwarp.tif", 1), 1e-6)

# The trend: np.polyfit of a sample of the pixels.
dates = sorted(d for d in os.listdir("demo") if d.startswith("2024-"))
days = np.array([(np.datetime64(d) - np.datetime64(dates[0])).astype(int) for d in dates], "f8")
stacks = ([read("demo/%s/%s.tif" % (d, n), 1).astype("f8") for d in dates] for n in ("B04", "B08", "SCL"))
red, nir, scl = map(np.array, stacks)
with np.errstate(all="ignore"):
    ndvi = (nir - red) / (nir + red - 2000)
ndvi[~np.isin(scl, [4, 5, 6]) | (red == 0) | (nir == 0)] = np.nan
at = [np.random.default_rng(1).integers(0, n, 3000) for n in median.shape]
want = np.full(3000, np.nan)
for k, (i, j) in enumerate(zip(*at)):
    v = ndvi[:, i, j]
    ok = ~np.isnan(v)
    if ok.sum() > 1:
        want[k] = np.polyfit(days[ok], v[ok], 1)[0]
compare("trend", read("trend.tif", 1)[tuple(at)], want, 1e-7)

# The polygons of the threshold: gdal_polygonize.py, without those below ten pixels.
change = read("change.tif", 1)
with rasterio.open("change.tif") as f:
    profile = dict(driver="GTiff", width=f.width, height=f.height, count=1, dtype="uint8", nodata=0, crs=f.crs, transform=f.transform)
    pixel = abs(f.transform.a * f.transform.e)
with rasterio.open("threshold.tif", "w", **profile) as f:
    f.write((change < np.float32(-0.3)).astype("u1"), 1)
run("gdal_polygonize.py", "-q", "threshold.tif", "-f", "GPKG", "threshold.gpkg")
def shapes(path, field):
    source = ogr.Open(path)
    return sorted([f[field], f.geometry().ExportToWkt()] for f in source.GetLayer()
                  if f.geometry().GetArea() > 9.5 * pixel)
got, want = shapes("loss.gpkg", "value"), shapes("threshold.gpkg", "DN")
loss = ogr.Open("loss.gpkg") # a layer ends with its source
result["polygons"] = "" if want and got == want and loss.GetLayer().GetFeatureCount() == len(want) else "%d polygons and %d" % (len(got), len(want))

# Inside a polygon: gdalwarp, which transforms points between the vertices too.
extent, size, crs = box("inside.tif")
run("gdalwarp", "-q", "-overwrite", "-te", *extent, "-ts", *size, "-cutline", "area.geojson", "-dstnodata", "nan",
    "median.tif", "cut.tif")
compare("inside", read("inside.tif", 1), read("cut.tif", 1))

# Scale and offset, with those that rasterio reads.
with rasterio.open("demo/2024-05-01/B04.tif") as f:
    want = np.where(f.read_masks(1) > 0, f.read(1) * f.scales[0] + f.offsets[0], np.nan)
compare("reflectance", read("reflectance.tif", 1), want, 3e-8)
with rasterio.open("small.tif") as f:
    small, scale, offset, mask = f.read(1), f.scales[0], f.offsets[0], f.read_masks(1) > 0
result["scale"] = "" if (scale, offset, small.dtype) == (0.0001, 0, np.int16) else repr((scale, offset, small.dtype))
compare("small", np.where(mask, small * scale, np.nan), median, 0.0000500001)

# Bands with names.
with rasterio.open("stack.tif") as f:
    result["band names"] = "" if f.descriptions == ("red", "nir") else repr(f.descriptions)
    compare("stack", f.read(), [read("demo/2024-05-01/B0%d.tif" % n, 1) for n in (4, 8)])
json.dump(result, sys.stdout)
`

// compareWithReferences compares the results of the recipes with those of other tools, pixel by
// pixel, and the object in the bucket with a file.
func compareWithReferences(t *testing.T, page *pageRun) {
	t.Helper()
	page.run(t, "leat apply -q -i ndvi=median.tif -o ndvi=local.tif -e ndvi --cog")
	local, err := os.ReadFile(filepath.Join(page.dir, "local.tif"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(page.bucket + "ndvi.tif")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if object, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(object, local) {
		t.Errorf("the object of %d bytes is not the local file of %d: %v", len(object), len(local), err)
	}
	for _, program := range []string{"gdal_polygonize.py", "gdaldem", "gdalwarp", "gdalbuildvrt"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the results are compared with those of programs that are not here: " + program)
		}
	}
	var plan struct {
		Inputs []struct {
			Scale map[string]float64 `json:"warp_scale"`
		}
	}
	text := page.run(t, `leat apply -q -i t=west.tif -i t=east.tif -o mosaic=other.tif -e 'coalesce(t)' `+
		`--reference west.tif --footprint union --resample bilinear --plan --json`)
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if len(plan.Inputs) != 2 || plan.Inputs[1].Scale == nil {
		t.Fatalf("%s", text)
	}
	var differences map[string]string
	pytest.Run(t, []string{"osgeo.gdal", "osgeo.ogr", "numpy", "rasterio"}, recipeTruth,
		map[string]any{"dir": page.dir, "scale": plan.Inputs[1].Scale}, &differences)
	if len(differences) < 12 {
		t.Errorf("compared %d results", len(differences))
	}
	for task, difference := range differences {
		if difference != "" {
			t.Errorf("%s: %s", task, difference)
		}
	}
}
