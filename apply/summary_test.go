package apply

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"leat/internal/overview"
	"leat/internal/pytest"
	"leat/ndarray"
)

// An output without a valid pixel, infinite pixels and an unused input cause warnings, not errors.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	grid := mapGrid(40, 30, 0, 0)
	a := write(t, filepath.Join(dir, "a.tif"), grid, make([]uint8, 40*30), func(o *Output) { o.Nodata = "0" })
	b := write(t, filepath.Join(dir, "b.tif"), grid, terrain[uint8](40, 30, 1), nil)
	inf := float32(math.Inf(1))
	result := func(job Job) *Result {
		job.Inputs = map[string]Input{"a": File(a), "b": File(b)}
		job.Outputs = map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}}
		return mustRun(t, job)
	}
	fill := func(bands int, value func(band int) float32) Job {
		return Job{Func: func(_ context.Context, b *Block) error {
			out := b.NewOut(ndarray.Float32, bands)
			for band := range bands {
				px := ndarray.Slice[float32](out.At(band))
				for i := range px {
					px[i] = value(band)
				}
				px[0] = value(band + 1)
			}
			b.SetOut("o", out)
			return nil
		}}
	}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		job     Job
		outputs []string
		plan    []string
	}{
		"nothing wrong": {Job{Expressions: map[string]string{"o": "fill(a, 1) + b"}}, nil, nil},
		"no valid pixel": {Job{Expressions: map[string]string{"o": "a + b"}}, []string{"it has no valid pixel"},
			nil},
		"one empty band": {Job{Expressions: map[string]string{"o": "[a, b]"}},
			[]string{"1 band has no valid pixel: 1"}, nil},
		"infinite": {Job{Expressions: map[string]string{"o": "1 / fill(a, 0) + 0 * b"}},
			[]string{"1200 pixels are infinite"}, nil},
		"unused input": {Job{Expressions: map[string]string{"o": "b"}}, nil,
			[]string{"input a is used by no expression: it counts for the grid alone"}},
		"unused reference": {Job{Expressions: map[string]string{"o": "b"}, Controls: Controls{Reference: "a"}}, nil,
			nil},
		"function, NaN alone": {fill(2, func(int) float32 { return nan }), []string{"it has no valid pixel"}, nil},
		"function, infinite": {fill(1, func(band int) float32 { return []float32{3, inf}[band] }),
			[]string{"1 pixel is infinite"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			res := result(c.job)
			if !slices.Equal(noteTexts(res.Outputs[0].Warnings), c.outputs) ||
				!slices.Equal(noteTexts(res.Plan.Warnings), c.plan) {
				t.Errorf("%q and %q", res.Outputs[0].Warnings, res.Plan.Warnings)
			}
			for _, b := range res.Outputs[0].Bands {
				if b.Mean-b.Mean != 0 || b.StdDev-b.StdDev != 0 {
					t.Errorf("%+v", b)
				}
			}
		})
	}
}

func TestStatisticsMatchGDAL(t *testing.T) {
	dir := t.TempDir()
	nan := float32(math.NaN())
	var paths []string
	add := func(name string, make func(path string) string) {
		paths = append(paths, make(filepath.Join(dir, name+".tif")))
	}
	full := func(o *Output) { o.NoStatistics, o.TileSize = false, 64 }
	grid := mapGrid(301, 203, 0, 0)
	add("uint8", func(p string) string { return write(t, p, grid, terrain[uint8](301, 203, 1), full) })
	add("int16", func(p string) string {
		return write(t, p, grid, holes(terrain[int16](301, 203, 2), 301, 9, -999, 1),
			func(o *Output) { full(o); o.Nodata = "-999" })
	})
	add("uint16", func(p string) string {
		px := make([]uint16, 301*203)
		for i := range px {
			px[i] = uint16(rand.Uint32())
		}
		return write(t, p, grid, px, full)
	})
	add("float32", func(p string) string {
		return write(t, p, grid, holes(terrain[float32](301, 203, 3), 301, 9, nan, 1), full)
	})
	add("float64", func(p string) string {
		return write(t, p, grid, holes(terrain[float64](301, 203, 4), 301, 9, -1, 1),
			func(o *Output) { full(o); o.Nodata = "-1" })
	})
	add("int32", func(p string) string { return write(t, p, grid, terrain[int32](301, 203, 5), full) })
	type band struct {
		Min, Max, Mean, Std, Valid float64
		Items                      map[string]string
	}
	var got []band
	pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys
from osgeo import gdal
gdal.UseExceptions()
out = []
for path in json.load(sys.stdin):
    d = gdal.Open(path)
    items = d.GetRasterBand(1).GetMetadata()
    m = gdal.GetDriverByName('MEM').CreateCopy('', d)
    m.GetRasterBand(1).SetMetadata({})
    lo, hi, mean, std = m.GetRasterBand(1).ComputeStatistics(False)
    valid = float(m.GetRasterBand(1).GetMetadata()['STATISTICS_VALID_PERCENT'])
    out.append(dict(Min=lo, Max=hi, Mean=mean, Std=std, Valid=valid, Items=items))
print(json.dumps(out))
`, paths, &got)
	for i, g := range got {
		b := open(t, paths[i]).Info().Bands[0]
		for item, want := range map[string]float64{"MINIMUM": g.Min, "MAXIMUM": g.Max, "MEAN": g.Mean, "STDDEV": g.Std,
			"VALID_PERCENT": g.Valid} {
			v := parse(t, b.Metadata["STATISTICS_"+item])
			tolerance := 1e-9 * math.Max(1, math.Abs(want))
			if item == "VALID_PERCENT" {
				tolerance = 0.01 // of the written digits
			}
			if math.Abs(v-want) > tolerance {
				t.Errorf("%s: %s is %v, GDAL computes %v", paths[i], item, v, want)
			}
		}
		for _, item := range []string{"MEAN", "HISTOBINVALUES", "HISTOMIN", "HISTONUMBINS", "MEDIAN", "MODE",
			"HISTOBINFUNCTION"} {
			if v := g.Items["STATISTICS_"+item]; v == "" || v != b.Metadata["STATISTICS_"+item] {
				t.Errorf("%s: GDAL reads %q for %s", paths[i], v, item)
			}
		}
	}
}

func parse(t *testing.T, text string) (v float64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &v); err != nil {
		t.Fatalf("%q is not a number", text)
	}
	return v
}

// cascade computes the expected overviews: each level from the one before (nearest: from full
// resolution), by the rules of package overview, over the whole raster at once.
func cascade[T ndarray.Element](t *testing.T, m overview.Method, px []T, w, h int, factors []int,
	nodata *ndarray.Scalar) (levels [][]T) {
	t.Helper()
	from, fw, fh, ff := px, w, h, 1
	for _, f := range factors {
		if m == overview.Nearest {
			from, fw, fh, ff = px, w, h, 1
		}
		step := f / ff
		dst := make([]T, overview.Reduced(fw, step)*overview.Reduced(fh, step))
		p := overview.Plane{Type: ndarray.TypeOf[T](), Width: fw, Height: fh, Stride: fw, Data: ndarray.BytesOf(from)}
		if err := overview.Reduce(m, ndarray.BytesOf(dst), p, step, nodata); err != nil {
			t.Fatal(err)
		}
		levels = append(levels, dst)
		from, fw, fh, ff = dst, overview.Reduced(fw, step), overview.Reduced(fh, step), f
	}
	return levels
}

func TestOverviewsForAnyBlockSize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, h := 2100, 601
	if everyCase() {
		h = 1301
	}
	u16 := holes(terrain[uint16](w, h, 1), w, 3, 0, 1)
	f32 := holes(terrain[float32](w, h, 2), w, 3, float32(math.NaN()), 2)
	zero := ndarray.ScalarOf[uint16](0)
	windows := [][2]int{{0, 0}, {512, 512}, {4096, 4096}, {1024, 512}}
	if testing.Short() {
		windows = windows[:2]
	}
	for _, m := range []overview.Method{overview.Nearest, overview.Average, overview.Mode} {
		factors := []int{2, 4, 16, 512, 1024, 2048}
		var first []byte
		for i, window := range windows {
			job := Job{Controls: Controls{Grid: gridOf(w, h), WindowWidth: window[0], WindowHeight: window[1]},
				Concurrency: Concurrency{Workers: 1 + i%3},
				Outputs: map[string]Output{
					"u": {Path: filepath.Join(dir, "u.tif"), Nodata: "0", TileSize: 256, Overviews: factors,
						OverviewMethod: m.String()},
					"f": {Path: filepath.Join(dir, "f.tif"), TileSize: 512, Overviews: factors, OverviewMethod: m.String()},
				},
				Func: func(_ context.Context, b *Block) error {
					b.SetOut("u", cut(u16, w, h, b.Window))
					b.SetOut("f", cut(f32, w, h, b.Window))
					return nil
				}}
			mustRun(t, job)
			both := append(fileBytes(t, filepath.Join(dir, "u.tif")), fileBytes(t, filepath.Join(dir, "f.tif"))...)
			if first == nil {
				first = both
			} else if string(first) != string(both) {
				t.Errorf("%v: windows of %v give other bytes", m, window)
			}
		}
		checkLevels(t, fmt.Sprint(m, " of uint16"), filepath.Join(dir, "u.tif"),
			cascade(t, m, u16, w, h, factors, &zero))
		checkLevels(t, fmt.Sprint(m, " of float32"), filepath.Join(dir, "f.tif"),
			cascade(t, m, f32, w, h, factors, nil))
	}
}

func checkLevels[T ndarray.Element](t *testing.T, what, path string, want [][]T) {
	t.Helper()
	f := open(t, path)
	if n := len(f.Overviews()); n != len(want) {
		t.Fatalf("%s: %d overviews, not %d", what, n, len(want))
	}
	for i, s := range f.Overviews() {
		o, err := f.Overview(i)
		if err != nil {
			t.Fatal(err)
		}
		samePixels(t, fmt.Sprintf("%s, overview %d of %v", what, i+1, s), s.Width, allOf[T](t, o), want[i])
	}
}

func TestNoStatistics(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(100, 100, 0, 0), terrain[uint8](100, 100, 1), nil)
	if m := open(t, path).Info().Bands[0].Metadata; len(m) != 0 {
		t.Errorf("%v", m)
	}
}

func TestStatisticsOfInvalidBand(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(70, 70, 0, 0), make([]uint8, 4900),
		func(o *Output) { o.Nodata, o.NoStatistics = "0", false })
	m := open(t, path).Info().Bands[0].Metadata
	if len(m) != 1 || m["STATISTICS_VALID_PERCENT"] != "0" {
		t.Errorf("%v", m)
	}
}
