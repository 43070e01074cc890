package zonaljob

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/apply"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/proctest"
	"leat/internal/pytest"
	"leat/internal/worker/pbstest"
	"leat/internal/zonal"
	"leat/ndarray"
	"leat/raster"
	"leat/worker/subprocess"
)

func TestMain(m *testing.M) {
	pbstest.Main()
	apply.Main(clusterFunctions(), nil)
	proctest.Main(map[string]proctest.Func{"zonal": func(args []string) error {
		job, err := testJob(args[0], "mean,median,count", zonal.ByCoverage)
		if len(args) > 1 {
			job, err = clusterJob(args[0], args[1])
		}
		if err != nil {
			return err
		}
		job.Resume = true
		_, err = apply.Run(context.Background(), *job)
		return err
	}})
	os.Exit(m.Run())
}

// makeRasters writes rasters of bytes, with nodata 0, and floats, with NaN.
func makeRasters(t *testing.T, dir string, width, height int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	g := raster.Grid{Width: width, Height: height, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32632"},
		Transform: raster.Transform{500000, 10, 0, 5200000, 0, -10}}
	bytes, floats := make([]uint8, width*height), make([]float32, width*height)
	for i := range bytes {
		bytes[i], floats[i] = uint8(r.IntN(200)), float32(r.NormFloat64())
		if r.IntN(20) == 0 {
			floats[i] = float32(math.NaN())
		}
	}
	_, err := apply.Run(t.Context(), apply.Job{
		Controls: apply.Controls{Grid: &g, WindowWidth: 1 << 12, WindowHeight: 1 << 12},
		Outputs: map[string]apply.Output{"a": {Path: filepath.Join(dir, "a.tif"), Nodata: "0", TileSize: 64},
			"f": {Path: filepath.Join(dir, "f.tif"), TileSize: 64}},
		Func: func(_ context.Context, b *apply.Block) error {
			b.SetOut("a", ndarray.FromSlice(bytes, 1, height, width))
			b.SetOut("f", ndarray.FromSlice(floats, 1, height, width))
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
}

// makeZones writes polygons of all sizes, which overlap and reach out of the raster.
func makeZones(t *testing.T, dir string, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	b.WriteString(`{"type": "FeatureCollection", "crs": {"type": "name",
"properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}, "features": [`)
	for i := range n {
		x, y, size := 499800+r.Float64()*3000, 5200200-r.Float64()*2400, math.Exp(1+r.Float64()*6)
		var ring []string
		for k := range 3 + r.IntN(9) {
			angle := float64(k) + r.Float64()*0.5
			ring = append(ring, fmt.Sprintf("[%v, %v]", x+size*math.Cos(angle), y+size*math.Sin(angle)*0.7))
		}
		ring = append(ring, ring[0])
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `
{"type": "Feature", "properties": {"key": %d}, "geometry": {"type": "Polygon", "coordinates": [[%s]]}}`, 1000+i,
			strings.Join(ring, ", "))
	}
	b.WriteString("\n]}\n")
	if err := os.WriteFile(filepath.Join(dir, "z.geojson"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// testJob returns a job of both rasters in dir.
func testJob(dir, stats string, rule zonal.Rule) (*apply.Job, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	job := &apply.Job{Inputs: map[string]apply.Input{"a": apply.File(at("a.tif")), "f": apply.File(at("f.tif"))},
		Controls: apply.Controls{WindowWidth: 64, WindowHeight: 64}, Concurrency: apply.Concurrency{Workers: 2}}
	err := Complete(job, &Options{Path: at("out.csv"), Zones: gdal.VectorRequest{Path: at("z.geojson")}, By: []string{"key"},
		Stats: stats, Rule: rule, Variables: map[string]string{"a": "a", "f": "f * 2"}, Warn: func(string) {}})
	return job, err
}

func runJob(t *testing.T, job *apply.Job) []byte {
	t.Helper()
	if _, err := apply.Run(t.Context(), *job); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(job.Outputs[OutputName].Path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func needGDAL(t *testing.T) {
	t.Helper()
	if err := gdal.Available(); err != nil {
		t.Skip("needs GDAL: ", err)
	}
}

// burned are the statistics of each zone's pixels, by gdal.RasterizeLayer and NumPy.
const burned = `
import json, sys
import numpy as np
from osgeo import gdal, ogr
gdal.UseExceptions()
dir, options = json.load(sys.stdin)
rasters = []
for name, scale in (("a", 1), ("f", 2)):
    d = gdal.Open(dir + "/" + name + ".tif")
    v = d.ReadAsArray()
    rasters.append((v.astype("f8") * scale, v != 0 if name == "a" else ~np.isnan(v)))
source = ogr.Open(dir + "/z.geojson")
layer = source.GetLayer(0)
mem = gdal.GetDriverByName("MEM").Create("", d.RasterXSize, d.RasterYSize, 1, gdal.GDT_Byte)
mem.SetGeoTransform(d.GetGeoTransform())
mem.SetSpatialRef(d.GetSpatialRef())
rows = []
for feature in layer:
    one = ogr.GetDriverByName("Memory").CreateDataSource("")
    part = one.CreateLayer("x", layer.GetSpatialRef())
    part.CreateFeature(feature.Clone())
    mem.GetRasterBand(1).Fill(0)
    gdal.RasterizeLayer(mem, [1], part, burn_values=[1], options=options)
    inside = mem.ReadAsArray() == 1
    row = [feature["key"]]
    for v, valid in rasters:
        x = v[inside & valid]
        row += [len(x), int((inside & ~valid).sum())]
        row += [f(x) if len(x) else None for f in (np.sum, np.mean, np.std, np.min, np.max, np.median,
                                                   lambda x: np.percentile(x, 12.5))]
    rows.append(row)
json.dump(rows, sys.stdout)
`

func TestZonalMatchesGdalRasterize(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 260, 210)
	makeZones(t, dir, 150)
	for rule, options := range map[zonal.Rule][]string{zonal.ByCentre: {}, zonal.ByTouch: {"ALL_TOUCHED=TRUE"}} {
		if testing.Short() && rule == zonal.ByTouch {
			continue
		}
		var want [][]*float64
		pytest.Run(t, []string{"numpy", "osgeo.gdal"}, burned, []any{dir, options}, &want)
		job, err := testJob(dir, "count,nodata,sum,mean,std,min,max,median,p12.5", rule)
		if err != nil {
			t.Fatal(err)
		}
		_, valid := compareZones(t, runJob(t, job), want, 1e-12)
		if valid < len(want)*10 {
			t.Errorf("only %d values", valid)
		}
	}
}

// compareZones compares a table in CSV with rows of numbers, or nil where there is no reference. It
// returns how many zones and how many of their values it compared.
func compareZones(t *testing.T, table []byte, want [][]*float64, tolerance float64) (zones, values int) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil || len(rows) != len(want)+1 {
		t.Fatalf("%d rows, expected %d: %v", len(rows), len(want)+1, err)
	}
	for i, row := range rows[1:] {
		if want[i] == nil {
			continue
		}
		zones++
		if len(row) != len(want[i]) {
			t.Fatalf("zone %s: %d values, expected %d", row[0], len(row), len(want[i]))
		}
		for k, text := range row {
			w := want[i][k]
			if w == nil {
				if text != "" {
					t.Errorf("zone %s, %s: %s, expected none", row[0], rows[0][k], text)
				}
				continue
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || math.Abs(v-*w) > tolerance*max(1, math.Abs(*w)) {
				t.Errorf("zone %s, %s: %s, expected %v", row[0], rows[0][k], text, *w)
			}
			values++
		}
	}
	return zones, values
}

func TestSameTableForAnyRun(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 260, 210)
	makeZones(t, dir, 60)
	var want []byte
	for i, change := range []func(*apply.Job){
		func(*apply.Job) {},
		func(j *apply.Job) { j.Controls.WindowWidth, j.Controls.WindowHeight = 512, 512 },
		func(j *apply.Job) { j.Controls.WindowWidth, j.Concurrency.Workers = 128, 1 },
		func(j *apply.Job) { j.Concurrency = apply.Concurrency{Workers: 2, On: subprocess.New(nil)} },
		func(j *apply.Job) {
			j.Concurrency = apply.Concurrency{Workers: 2, On: subprocess.New(nil), Reading: apply.ReadByWorkers}
		},
	} {
		job, err := testJob(dir, "mean,std,median,histogram(-1,0,9),count,mode,variety", zonal.ByCoverage)
		if err != nil {
			t.Fatal(err)
		}
		change(job)
		got := runJob(t, job)
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("run %d: the table differs", i)
		}
	}
	if n := bytes.Count(want, []byte("\n")); n != 61 {
		t.Errorf("%d lines", n)
	}
}

func TestResumeZonalAfterKill(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	makeRasters(t, dir, 260, 210)
	makeZones(t, dir, 60)
	job, err := testJob(dir, "mean,median,count", zonal.ByCoverage)
	if err != nil {
		t.Fatal(err)
	}
	want := runJob(t, job)
	for n, point := range map[int]string{3: "apply.record", 11: "apply.block-done", 1: "apply.laid-out"} {
		if err := os.Remove(filepath.Join(dir, "out.csv")); err != nil {
			t.Fatal(err)
		}
		if killed, out, err := proctest.New("zonal", dir).KillAt(point, n).Start(t).Wait(); !killed {
			t.Fatalf("no child was killed at %s: %v: %s", point, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "out.csv")); err == nil {
			t.Errorf("killed at %s: the table exists", point)
		}
		job, err := testJob(dir, "mean,median,count", zonal.ByCoverage)
		if err != nil {
			t.Fatal(err)
		}
		job.Resume = true
		if got := runJob(t, job); !bytes.Equal(got, want) {
			t.Errorf("killed at %s: the table of the resumed run differs", point)
		}
	}
	job, err = testJob(dir, "mean,median", zonal.ByCoverage)
	if err != nil {
		t.Fatal(err)
	}
	if killed, _, _ := proctest.New("zonal", dir).KillAt("apply.record", 5).Start(t).Wait(); !killed {
		t.Fatal("no child was killed")
	}
	job.Resume = true
	const differ = "the parameters of the function differ"
	if _, err := apply.Run(t.Context(), *job); err == nil || !strings.Contains(err.Error(), differ) {
		t.Errorf("other statistics: %v", err)
	}
}

func TestParamsRoundTrip(t *testing.T) {
	var list shapes
	list.add(&zonal.Polygon{XY: []float64{0, 0, 10, 0, 5, 7.25}, Rings: []int{3}, Parts: []int{1}})
	list.add(nil)
	list.add(&zonal.Polygon{XY: []float64{1, 1, 2, 1, 2, 2, 20, 20, 30, 20, 25, 30}, Rings: []int{3, 6},
		Parts: []int{1, 2}})
	p, err := newParams(settings{Grid: block.Window{Width: 25, Height: 25}, Rule: zonal.ByTouch, Stats: "mean",
		Variables: []variable{{"v", ndarray.Float32, 2}}}, list)
	if err != nil {
		t.Fatal(err)
	}
	text, err := paramsCodec{}.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	v, err := paramsCodec{}.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := paramsCodec{}.Encode(v)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("another encoding: %v", err)
	}
	got := v.(*params)
	if found := got.find(nil, block.Window{Col: 22, Row: 22, Width: 3, Height: 3}); len(found) != 1 || found[0] != 2 {
		t.Errorf("found %v", found)
	}
	if last := got.last[2]; last.Col != 24 || last.Row != 24 || !got.last[1].Empty() {
		t.Errorf("last pixels %v", got.last)
	}
	var poly zonal.Polygon
	if err := got.shapes.polygon(2, &poly); err != nil || len(poly.XY) != 12 || len(poly.Parts) != 2 ||
		poly.Rings[1] != 6 {
		t.Errorf("%+v: %v", poly, err)
	}
	for n := range len(text) {
		if _, err := (paramsCodec{}).Decode(text[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(text))
		}
	}
}

func TestResultsRoundTrip(t *testing.T) {
	three := zonal.Value{Type: zonal.Int64, Int: 3}
	values := []zonal.Value{{Type: zonal.Int64, Int: -5}, {Type: zonal.Uint64, Uint: math.MaxUint64}, {Float: 0.1},
		{Null: true}, {Type: zonal.Histogram, Null: true},
		{Type: zonal.Histogram, Bins: []zonal.Bin{{Low: three, High: three, Count: 2.5}}}}
	r := results{places: make([]int64, 150000)}
	for i := range r.places {
		if i%3 == 0 {
			values[0].Int = int64(i)
			r.set(i, values)
		}
	}
	if len(r.chunks) < 2 {
		t.Errorf("%d chunks", len(r.chunks))
	}
	for i := range r.places {
		if r.has(i) != (i%3 == 0) {
			t.Fatal(i)
		}
		if !r.has(i) {
			continue
		}
		values[0].Int = int64(i)
		got, err := r.get(nil, i)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(values) {
			t.Fatalf("row %d: %v, expected %v: %v", i, got, values, err)
		}
	}
}
