package apply

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"leat/block"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/pytest"
	"leat/internal/rundir"
	"leat/ndarray"
	"leat/raster"
	"leat/timing"
	"leat/worker/subprocess"
)

const makeVectors = `
import json, sys, random
from osgeo import ogr, osr, gdal
gdal.UseExceptions(); ogr.UseExceptions(); osr.UseExceptions()
dir = json.load(sys.stdin)
r = random.Random(7)
s = osr.SpatialReference(); s.ImportFromEPSG(32631); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
d = ogr.GetDriverByName("GPKG").CreateDataSource(dir + "/a.gpkg")
def put(name, kind, geometries):
    l = d.CreateLayer(name, s, kind)
    for f, t in (("class", ogr.OFTInteger), ("height", ogr.OFTReal), ("big", ogr.OFTInteger64), ("name", ogr.OFTString)): l.CreateField(ogr.FieldDefn(f, t))
    for i, g in enumerate(geometries):
        f = ogr.Feature(l.GetLayerDefn()); f.SetGeometry(ogr.CreateGeometryFromWkt(g))
        f["class"] = 1 + i % 7; f["height"] = i * 1.25 - 3; f["big"] = i * 10**10; f["name"] = "n%d" % i
        l.CreateFeature(f)
def pt(): return r.uniform(499700, 503300), r.uniform(4997700, 5000300)
polygons = []
for _ in range(60):
    x, y = pt(); k = r.uniform(20, 400)
    ring = ["%.3f %.3f" % (x + r.uniform(-k, k), y + r.uniform(-k, k)) for _ in range(r.randint(3, 7))]
    polygons.append("POLYGON ((%s, %s))" % (", ".join(ring), ring[0]))
put("fields", ogr.wkbPolygon, polygons)
put("roads", ogr.wkbLineString, ["LINESTRING (%s)" % ", ".join("%.3f %.3f" % pt() for _ in range(r.randint(2, 5))) for _ in range(25)])
put("wells", ogr.wkbPoint, ["POINT (%.3f %.3f)" % pt() for _ in range(300)])
d = None
gdal.VectorTranslate(dir + "/degrees.geojson", dir + "/a.gpkg", format="GeoJSON", layers=["fields"], dstSRS="EPSG:4326", reproject=True)
gdal.VectorTranslate(dir + "/fields.shp", dir + "/a.gpkg", format="ESRI Shapefile", layers=["fields"])
print("{}")
`

const burnTruth = `
import json, sys, base64, subprocess, os, tempfile
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    s = osr.SpatialReference(); s.SetFromUserInput(c["crs"]); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "a.tif")
        d = gdal.GetDriverByName("GTiff").Create(path, c["w"], c["h"], 1, gdal.GetDataTypeByName(c["type"]))
        d.SetGeoTransform(c["six"]); d.SetSpatialRef(s); d.GetRasterBand(1).Fill(c["null"]); d = None
        subprocess.run(["gdal_rasterize", "-q"] + c["args"] + [c["path"], path], check=True)
        a = gdal.Open(path).ReadAsArray()
        out.append(dict(pixels=base64.b64encode(a.tobytes()).decode(), burned=int((a != np.array(c["null"], a.dtype)).sum())))
json.dump(out, sys.stdout)
`

// vectorFiles makes a directory with a.gpkg (layers fields, roads and wells), degrees.geojson and
// fields.shp, once for all tests.
func vectorFiles(t testing.TB) string {
	t.Helper()
	if err := gdal.Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeVectors, dir, nil)
	return dir
}

// vectorGrid returns the middle of the vectors' extent.
func vectorGrid() raster.Grid { return mapGrid(300, 200, 0, 0) }

// rasterized returns the raw pixels of gdal_rasterize.
func rasterized(t testing.TB, path string, grid raster.Grid, gdalType string, null float64, args ...string) []byte {
	t.Helper()
	list := rasterizedAll(t, []burnCase{{Path: path, Type: gdalType, Null: null, Args: args, grid: grid}})
	return list[0]
}

type burnCase struct {
	Name string     `json:"-"`
	Path string     `json:"path"`
	Type string     `json:"type"`
	Null float64    `json:"null"`
	Args []string   `json:"args"`
	CRS  string     `json:"crs"`
	Six  [6]float64 `json:"six"`
	W    int        `json:"w"`
	H    int        `json:"h"`
	grid raster.Grid
	v    Vector
}

func rasterizedAll(t testing.TB, cases []burnCase) [][]byte {
	t.Helper()
	for i := range cases {
		c := &cases[i]
		c.CRS, c.Six, c.W, c.H = c.grid.CRS.Code, c.grid.Transform, c.grid.Width, c.grid.Height
	}
	var truth []struct {
		Pixels string
		Burned int
	}
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, burnTruth, cases, &truth)
	var list [][]byte
	for i, k := range truth {
		if k.Burned == 0 {
			t.Errorf("%s: gdal_rasterize burned nothing", cases[i].Name)
		}
		b, err := base64.StdEncoding.DecodeString(k.Pixels)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// vectorJob returns a job that writes rasterized vectors, each to an output of its name.
func vectorJob(dir string, grid raster.Grid, vectors map[string]Vector) Job {
	job := Job{Vectors: vectors, Expressions: map[string]string{}, Outputs: map[string]Output{},
		Controls: Controls{Grid: &grid}}
	for name := range vectors {
		job.Expressions[name] = name
		job.Outputs[name] = Output{Path: filepath.Join(dir, name+".tif"), TileSize: 64}
	}
	return job
}

// raw returns the pixels of the first band.
func raw(t testing.TB, path string) []byte {
	t.Helper()
	f := open(t, path)
	i := f.Info()
	a := ndarray.New(i.Bands[0].Type, 1, i.Grid.Height, i.Grid.Width)
	if err := f.Read(t.Context(), []int{1}, i.Grid.Window(), a); err != nil {
		t.Fatal(err)
	}
	return a.Raw()
}

// countBurning counts the rasters that are made in this process until the test ends.
func countBurning(t testing.TB) *atomic.Int64 {
	n := new(atomic.Int64)
	atPoints(t, func(point string) error {
		if point == "apply.rasterized" {
			n.Add(1)
		}
		return nil
	})
	return n
}

// atPoints calls f at each point of the code until the test ends.
func atPoints(t testing.TB, f func(point string) error) {
	fault.Set(f)
	t.Cleanup(func() { fault.Set(nil) })
}

// afterBlocks calls f when a run in this process has finished n blocks.
func afterBlocks(t testing.TB, n int64, f func()) {
	var done atomic.Int64
	atPoints(t, func(point string) error {
		if point == "apply.block-done" && done.Add(1) == n {
			f()
		}
		return nil
	})
}

// noDirs fails if a run left a directory of its own.
func noDirs(t testing.TB, dir string) {
	t.Helper()
	if list, err := filepath.Glob(filepath.Join(dir, rundir.Prefix+"*")); err != nil || len(list) > 0 {
		t.Errorf("%q were left (%v)", list, err)
	}
}

func ptr(v float64) *float64 { return &v }

func TestVectorsMatchGdalRasterize(t *testing.T) {
	t.Parallel()
	dir := vectorFiles(t)
	gpkg, geojson, shp := filepath.Join(dir, "a.gpkg"), filepath.Join(dir, "degrees.geojson"),
		filepath.Join(dir, "fields.shp")
	fields := func(v Vector) Vector { v.Path, v.Layer = gpkg, "fields"; return v }
	degrees := raster.Grid{Width: 190, Height: 210, HasTransform: true,
		Transform: raster.Transform{2.9995, 0.0002, 0, 45.1536, 0, -0.0001}, CRS: raster.CRS{Code: "EPSG:4326"}}
	cases := []burnCase{
		{Name: "one by default", Type: "Byte", Args: []string{"-l", "fields", "-burn", "1"}, v: fields(Vector{})},
		{Name: "a value", Type: "Byte", Args: []string{"-l", "fields", "-burn", "200"},
			v: fields(Vector{Burn: ptr(200)})},
		{Name: "a large value", Type: "Int32", Args: []string{"-l", "fields", "-burn", "-70000"},
			v: fields(Vector{Burn: ptr(-70000)})},
		{Name: "a fraction", Type: "Float64", Args: []string{"-l", "fields", "-burn", "0.1"},
			v: fields(Vector{Burn: ptr(0.1)})},
		{Name: "a layer by number", Type: "Byte", Args: []string{"-l", "roads", "-burn", "1"},
			v: Vector{Path: gpkg, Layer: "1"}},
		{Name: "points", Type: "Byte", Args: []string{"-l", "wells", "-burn", "3"},
			v: Vector{Path: gpkg, Layer: "wells", Burn: ptr(3)}},
		{Name: "the only layer", Path: shp, Type: "Byte", Args: []string{"-burn", "1"}, v: Vector{Path: shp}},
		{Name: "lines, all touched", Type: "Byte", Args: []string{"-at", "-l", "roads", "-burn", "1"},
			v: Vector{Path: gpkg, Layer: "roads", AllTouched: true}},
		{Name: "polygons, all touched", Type: "Int32", Args: []string{"-at", "-l", "fields", "-a", "class"},
			v: fields(Vector{AllTouched: true, Attribute: "class"})},
		{Name: "an attribute", Type: "Int32", Args: []string{"-l", "fields", "-a", "class"},
			v: fields(Vector{Attribute: "class"})},
		{Name: "an attribute as bytes", Type: "Byte", Null: 99, Args: []string{"-l", "fields", "-a", "class"},
			v: fields(Vector{Attribute: "class", Type: ndarray.Uint8, Null: ptr(99)})},
		{Name: "an attribute of numbers", Type: "Float64", Null: -9999, Args: []string{"-l", "fields", "-a", "height"},
			v: fields(Vector{Attribute: "height", Null: ptr(-9999)})},
		{Name: "as float32", Type: "Float32", Args: []string{"-l", "fields", "-a", "height"},
			v: fields(Vector{Attribute: "height", Type: ndarray.Float32})},
		{Name: "a large integer", Type: "Int64", Args: []string{"-l", "fields", "-a", "big"},
			v: fields(Vector{Attribute: "big"})},
		{Name: "a condition", Type: "Int32", Args: []string{"-l", "fields", "-where", "class > 3", "-a", "class"},
			v: fields(Vector{Attribute: "class", Where: "class > 3"})},
		{Name: "a statement", Type: "Int16", Null: -1,
			Args: []string{"-sql", "SELECT geom, class * 100 AS c FROM fields WHERE height < 10", "-a", "c"},
			v: Vector{Path: gpkg, SQL: "SELECT geom, class * 100 AS c FROM fields WHERE height < 10", Attribute: "c",
				Null: ptr(-1), Type: ndarray.Int16}},
		{Name: "another system", Path: geojson, Type: "Int32", Args: []string{"-a", "class"},
			v: Vector{Path: geojson, Attribute: "class"}},
		{Name: "onto another system", Type: "Int32", Args: []string{"-at", "-l", "fields", "-a", "class"},
			v: fields(Vector{Attribute: "class", AllTouched: true}), grid: degrees},
	}
	for i := range cases {
		c := &cases[i]
		if c.Path == "" {
			c.Path = gpkg
		}
		if c.grid.Width == 0 {
			c.grid = vectorGrid()
		}
	}
	for i, want := range rasterizedAll(t, cases) {
		c := cases[i]
		t.Run(c.Name, func(t *testing.T) {
			out := t.TempDir()
			job := vectorJob(out, c.grid, map[string]Vector{"v": c.v})
			o := job.Outputs["v"]
			o.Nodata = "none"
			job.Outputs["v"] = o
			mustRun(t, job)
			if got := raw(t, o.Path); !bytes.Equal(got, want) {
				t.Errorf("%d bytes that differ from gdal_rasterize's %d", len(got), len(want))
			}
			noDirs(t, out)
			noTraces(t, out)
		})
	}
}

func TestRealVectorOnScene(t *testing.T) {
	shp, tif := repositoryData(t, "rasterio/box.shp"), repositoryData(t, "rasterio/RGB.byte.tif")
	if err := gdal.Available(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	out := filepath.Join(t.TempDir(), "o.tif")
	mustRun(t, Job{Inputs: map[string]Input{"rgb": File(tif)},
		Vectors:     map[string]Vector{"box": {Path: shp, Burn: ptr(5)}},
		Expressions: map[string]string{"o": "rgb[1] * 0 + box"},
		Outputs:     map[string]Output{"o": {Path: out, Type: ndarray.Uint8, Nodata: "255"}},
		Controls:    Controls{NoMask: true}})
	if want := rasterized(t, shp, open(t, tif).Info().Grid, "Byte", 0, "-burn", "5"); !bytes.Equal(raw(t, out), want) {
		t.Error("the pixels are not gdal_rasterize's")
	}
}

func TestRasterizeOncePerRequest(t *testing.T) {
	dir := vectorFiles(t)
	gpkg := filepath.Join(dir, "a.gpkg")
	grid := vectorGrid()
	a := Vector{Path: gpkg, Layer: "fields", Attribute: "class"}
	// the same layer by number
	byNumber := Vector{Path: gpkg, Layer: "0", Attribute: "class", Type: ndarray.Int32, Null: ptr(0)}
	b := Vector{Path: gpkg, Layer: "fields", Attribute: "height"}
	vectors := map[string]Vector{"a": a, "again": byNumber, "b": b}
	wantA := rasterized(t, gpkg, grid, "Int32", 0, "-l", "fields", "-a", "class")
	wantB := rasterized(t, gpkg, grid, "Float64", 0, "-l", "fields", "-a", "height")
	for _, way := range append(remoteSetups(),
		func(j *Job) string { j.Concurrency.Workers = 3; return "in this process" }) {
		out := t.TempDir()
		job := vectorJob(out, grid, vectors)
		job.Controls.WindowWidth, job.Controls.WindowHeight = 64, 64
		name := way(&job)
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			atPoints(t, func(point string) error {
				if point == "apply.rasterized" && n.Add(1) == 2 { // it can't be read from now on
					return os.Rename(gpkg, gpkg+".away")
				}
				return nil
			})
			defer os.Rename(gpkg+".away", gpkg)
			res := mustRun(t, job)
			if !slices.ContainsFunc(res.Timings.Stages,
				func(s timing.StageSummary) bool { return s.Stage == "rasterizing" && s.N == 2 }) {
				t.Errorf("the timings are %+v", res.Timings.Stages)
			}
			if n.Load() != 2 {
				t.Errorf("%d rasters were made of 2 requests", n.Load())
			}
			for name, want := range map[string][]byte{"a": wantA, "again": wantA, "b": wantB} {
				if !bytes.Equal(raw(t, job.Outputs[name].Path), want) {
					t.Errorf("%s: the pixels are not gdal_rasterize's", name)
				}
			}
			noDirs(t, out)
		})
	}
}

func TestUnusedVector(t *testing.T) {
	dir := vectorFiles(t)
	n := countBurning(t)
	job := vectorJob(t.TempDir(), vectorGrid(), map[string]Vector{"a": {Path: filepath.Join(dir, "fields.shp")}})
	job.Vectors["b"] = Vector{Path: filepath.Join(dir, "fields.shp"), Burn: ptr(2)}
	p, err := MakePlan(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if n.Load() != 0 {
		t.Error("the plan rasterized")
	}
	mustRun(t, job)
	if n.Load() != 1 {
		t.Errorf("%d rasters were made", n.Load())
	}
	if p.Inputs[1].Access != "not read" {
		t.Errorf("%+v", p.Inputs[1])
	}
}

// spread writes the sum over 3 x 3 pixels of a vector, margin included, and how many of them are
// valid.
func spread(_ context.Context, b *Block) error {
	v, valid := Band[int32](b, "v", 1), b.Valid("v").Raw()
	sum, n := Out[int32](b, "sum"), Out[uint8](b, "valid")
	cols := b.Columns()
	for y := 1; y < b.Rows()-1; y++ {
		for x := 1; x < cols-1; x++ {
			i := y*cols + x
			sum[i], n[i] = 0, 0
			for _, j := range []int{i - cols - 1, i - cols, i - cols + 1, i - 1, i, i + 1, i + cols - 1, i + cols,
				i + cols + 1} {
				sum[i] += v[j]
				n[i] += valid[j]
			}
		}
	}
	return nil
}

func TestVectorMargins(t *testing.T) {
	t.Parallel()
	dir := vectorFiles(t)
	gpkg := filepath.Join(dir, "a.gpkg")
	grid := vectorGrid()
	wide := grid.Sub(grid.Window().Grow(1))
	px := ndarray.Cast[int32](rasterized(t, gpkg, wide, "Int32", 0, "-at", "-l", "fields", "-a", "class"))
	want := make([]int32, grid.Width*grid.Height)
	for y := range grid.Height {
		for x := range grid.Width {
			for dy := range 3 {
				for dx := range 3 {
					want[y*grid.Width+x] += px[(y+dy)*wide.Width+x+dx]
				}
			}
		}
	}
	edge := 0
	for x := range grid.Width {
		edge += int(px[x])
	}
	if edge == 0 {
		t.Fatal("nothing lies beyond the grid")
	}
	for _, margin := range []block.Margin{block.MarginNodata, block.MarginReflect, block.MarginNearest} {
		out := t.TempDir()
		job := Job{Vectors: map[string]Vector{"v": {Path: gpkg, Layer: "fields", Attribute: "class", AllTouched: true}},
			Functions: testFunctions, Function: "spread",
			Outputs: map[string]Output{"sum": {Path: filepath.Join(out, "sum.tif"), TileSize: 64},
				"valid": {Path: filepath.Join(out, "valid.tif"), TileSize: 64}},
			Controls: Controls{Grid: &grid, Overlap: 1, Margin: margin, WindowWidth: 64, WindowHeight: 128}}
		mustRun(t, job)
		samePixels(t, margin.String(), grid.Width, pixels[int32](t, job.Outputs["sum"].Path), want)
		for _, n := range pixels[uint8](t, job.Outputs["valid"].Path) {
			if n != 9 {
				t.Fatalf("%v: %d of 9 pixels are valid", margin, n)
			}
		}
	}
}

func TestVectorsSameBytes(t *testing.T) {
	t.Parallel()
	dir := vectorFiles(t)
	gpkg := filepath.Join(dir, "a.gpkg")
	grid := vectorGrid()
	red := write(t, filepath.Join(t.TempDir(), "red.tif"), mapGrid(280, 190, 15, 5),
		holes(terrain[uint16](280, 190, 1), 280, 20, 0, 1), func(o *Output) { o.Nodata = "0" })
	run := func(overlap int, change func(*Job)) map[string][]byte {
		out := t.TempDir()
		job := Job{Inputs: map[string]Input{"red": File(red)},
			Vectors:   map[string]Vector{"v": {Path: gpkg, Layer: "fields", Attribute: "class", Nodata: "0"}},
			Functions: testFunctions, Function: "spread",
			Controls: Controls{Grid: &grid, Footprint: Union, Overlap: overlap},
			Outputs: map[string]Output{"sum": {Path: filepath.Join(out, "sum.tif"), TileSize: 16, NoOverviews: true},
				"valid": {Path: filepath.Join(out, "valid.tif"), TileSize: 16, NoOverviews: true}}}
		change(&job)
		mustRun(t, job)
		noDirs(t, out)
		files := map[string][]byte{}
		for name, o := range job.Outputs {
			files[name] = fileBytes(t, o.Path)
		}
		return files
	}
	r := rand.New(rand.NewPCG(3, 4))
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for _, overlap := range []int{1, 7} {
		want := run(overlap, func(*Job) {})
		for round := range rounds {
			var words string
			got := run(overlap, func(j *Job) {
				j.Controls.WindowWidth, j.Controls.WindowHeight = 16*(1+r.IntN(20)), 16*(1+r.IntN(20))
				j.Concurrency.Workers = 1 + r.IntN(4)
				if round%3 == 0 {
					j.Concurrency.On, j.Concurrency.Reading = subprocess.New(nil),
						[]Reading{ReadHere, ReadByWorkers}[round/3%2]
				} else {
					j.Concurrency.Readers = 1 + r.IntN(3)
				}
				words = fmt.Sprintf("overlap %d, windows of %d x %d, %+v", overlap, j.Controls.WindowWidth,
					j.Controls.WindowHeight, j.Concurrency)
			})
			for name := range want {
				if !bytes.Equal(got[name], want[name]) {
					t.Fatalf("%s: %s has other bytes", words, name)
				}
			}
		}
	}
}

func TestVectorNodata(t *testing.T) {
	t.Parallel()
	dir := vectorFiles(t)
	grid := vectorGrid()
	shp := filepath.Join(dir, "fields.shp")
	red := write(t, filepath.Join(t.TempDir(), "red.tif"), grid, terrain[uint8](300, 200, 1),
		func(o *Output) { o.Nodata = "255" })
	burned := rasterized(t, shp, grid, "Byte", 0, "-burn", "1")
	for _, nodata := range []string{"", "none", "0", "7"} {
		out := filepath.Join(t.TempDir(), "o.tif")
		res := mustRun(t, Job{Inputs: map[string]Input{"red": File(red)},
			Vectors:     map[string]Vector{"v": {Path: shp, Nodata: nodata}},
			Expressions: map[string]string{"o": "red * v"},
			Outputs:     map[string]Output{"o": {Path: out, Type: ndarray.Uint8, Nodata: "255"}}})
		want := len(burned)
		if nodata == "0" {
			want = bytes.Count(burned, []byte{1})
		}
		if m := res.Outputs[0].Bands[0]; m.Valid != int64(want) || m.Pixels != int64(len(burned)) {
			t.Errorf("nodata %q: %d of %d pixels are valid, not %d", nodata, m.Valid, m.Pixels, want)
		}
	}
	_, err := Run(t.Context(), Job{Vectors: map[string]Vector{"v": {Path: shp, Nodata: "300"}},
		Expressions: map[string]string{"o": "v"}, Controls: Controls{Grid: &grid},
		Outputs: map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.tif")}}})
	wantError(t, err, "vector v", "nodata 300", "uint8")
}
