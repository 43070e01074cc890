package apply

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/raster"
)

func TestWarpRejected(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	px := terrain[uint8](40, 30, 1)
	grid := mapGrid(40, 30, 0, 0)
	a := write(t, filepath.Join(dir, "a.tif"), grid, px, nil)
	off := grid
	off.Transform[1] = 20
	b := write(t, filepath.Join(dir, "b.tif"), off, px, nil)
	bare := off
	bare.CRS = raster.CRS{}
	noCRS := write(t, filepath.Join(dir, "nocrs.tif"), bare, px, nil)
	nowhere := write(t, filepath.Join(dir, "nowhere.tif"),
		raster.Grid{Width: 40, Height: 30, Transform: raster.Identity}, px, nil)
	turned := grid
	turned.Transform[2], turned.Transform[4] = 2, 2
	rotated := write(t, filepath.Join(dir, "rotated.tif"), turned, px, nil)
	if err := planError(Job{Inputs: map[string]Input{"a": File(a), "r": File(rotated)},
		Controls: Controls{Reference: "a"}, Func: nothing}); err != nil {
		t.Error("a rotated input:", err)
	}
	for name, c := range map[string]struct {
		inputs   map[string]Input
		controls Controls
		want     []string
	}{
		"without a reference": {map[string]Input{"a": File(a), "b": File(b)}, Controls{},
			[]string{"field Controls.Reference=a", "pixel size 20 x 10"}},
		"an open raster": {map[string]Input{"a": File(a), "b": {Files: []string{b}, Source: open(t, b)}},
			Controls{Reference: "a"}, []string{"Input.Source", b, "pixel size 20"}},
		"no CRS": {map[string]Input{"a": File(a), "b": File(noCRS)}, Controls{Reference: "a"},
			[]string{noCRS, "it has no coordinate reference system"}},
		"no CRS of the reference": {map[string]Input{"a": File(a), "b": File(noCRS)}, Controls{Reference: "b"},
			[]string{a, "the reference has no coordinate"}},
		"no transform": {map[string]Input{"a": File(a), "b": File(nowhere)}, Controls{Reference: "a"},
			[]string{nowhere, "it is not georeferenced"}},
		"no transform of the grid": {map[string]Input{"a": File(a), "b": File(nowhere)}, Controls{Reference: "b"},
			[]string{a, "the reference is not georeferenced"}},
		"a rotated reference": {map[string]Input{"a": File(a), "r": File(rotated)}, Controls{Reference: "r"},
			[]string{rotated, "is rotated", "field Controls.Reference=a"}},
		"a method": {map[string]Input{"a": File(a), "b": {Files: []string{b}, Resample: "best"}},
			Controls{Reference: "a"}, []string{"input b", `"best"`, "cubicspline"}},
		"a method that is not used": {map[string]Input{"a": {Files: []string{a}, Resample: "best"}}, Controls{},
			[]string{"input a", `"best"`}},
		"a band with two kinds of nodata": {map[string]Input{"a": File(a),
			"b": {Files: []string{b}, Layers: []int{1, 1}, Nodata: []string{"1", "2"}}}, Controls{Reference: "a"},
			[]string{b, "band 1 is read twice"}},
		"extents and a box": {map[string]Input{"a": File(a)},
			Controls{BBox: &[4]float64{0, 0, 1, 1}, Extents: []raster.Grid{grid}}, []string{"expected one of them", "field Controls.BBox"}},
		"an extent that lies nowhere": {map[string]Input{"a": File(a)},
			Controls{Extents: []raster.Grid{{Width: 3, Height: 3, Transform: raster.Identity}}},
			[]string{"field Controls.Extents", "georeferenced"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(failRun(t, Job{Inputs: c.inputs, Controls: c.controls, Func: nothing}, c.want...))
		})
	}
}

// planError returns the error of planning a job.
func planError(job Job) error {
	_, err := MakePlan(context.Background(), job)
	return err
}

func TestExtentInOtherCRS(t *testing.T) {
	needGDAL(t)
	a := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(400, 300, 0, 0), terrain[uint8](400, 300, 1), nil)
	e := raster.Grid{Width: 10, Height: 10, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{3.005, 0.001, 0, 45.149, 0, -0.001}}
	p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": File(a)},
		Controls: Controls{Extents: []raster.Grid{e}}, Func: nothing})
	if err != nil {
		t.Fatal(err)
	}
	box, err := gdal.Extent(e, mapGrid(1, 1, 0, 0).CRS)
	if err != nil {
		t.Fatal(err)
	}
	minX, minY, maxX, maxY := p.Grid.Bounds()
	for i, d := range []float64{minX - box[0], minY - box[1], maxX - box[2], maxY - box[3]} {
		if d > 5 || d < -5 {
			t.Errorf("side %d is %v m off: %v, not %v", i, d, boundsOf(p.Grid), box)
		}
	}
}

func TestExtentOnGridTo360Degrees(t *testing.T) {
	needGDAL(t)
	degrees := raster.Grid{Width: 360, Height: 180, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{0, 1, 0, 90, 0, -1}}
	a := write(t, filepath.Join(t.TempDir(), "a.tif"), degrees, terrain[uint8](360, 180, 1), nil)
	job := func(code string, x, y float64) Job {
		e := raster.Grid{Width: 60, Height: 60, HasTransform: true, CRS: raster.CRS{Code: code},
			Transform: raster.Transform{x - 150000, 5000, 0, y + 150000, 0, -5000}}
		return Job{Inputs: map[string]Input{"a": File(a)}, Controls: Controls{Extents: []raster.Grid{e}}, Func: nothing}
	}
	p, err := MakePlan(t.Context(), job("EPSG:32614", 414600, 4428200)) // 100 degrees west
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Grid; g.Transform[0] != 258 || g.Width != 4 || g.Transform[3] != 41 || g.Height != 2 {
		t.Errorf("the grid is %v", boundsOf(g))
	}
	err = failRun(t, job("EPSG:32631", 166000, 4987300), "extent: ", "both ends of the grid")
	if f := new(outcome.FieldError); !errors.As(err, &f) || f.Field != "Controls.Extents" {
		t.Errorf("the error names no field: %v", err)
	}
}

func TestResumeRejectsChangedWarp(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const w, h = 200, 150
	a := write(t, at("a.tif"), mapGrid(w, h, 0, 0), terrain[uint16](w, h, 1), nil)
	off := mapGrid(w, h, 0, 0)
	off.Transform[1] = 11
	b := write(t, at("b.tif"), off, terrain[uint16](w, h, 2),
		func(o *Output) { o.NoOverviews, o.Overviews = false, []int{2} })
	make := func(out string) Job {
		return Job{Inputs: map[string]Input{"a": File(a), "b": {Files: []string{b}, Resample: "bilinear"}},
			Expressions: map[string]string{"x": "a + b"},
			Outputs:     map[string]Output{"x": {Path: at(out), TileSize: 64}},
			Controls:    Controls{Reference: "a", WindowWidth: 64, WindowHeight: 64}}
	}
	mustRun(t, make("want.tif"))
	interrupt(t, make("x.tif"))
	for name, c := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"method": {func(j *Job) { j.Inputs["b"] = Input{Files: []string{b}, Resample: "cubic"} },
			"input b: the method of resampling was bilinear and is cubic"},
		"overviews": {func(j *Job) { j.Inputs["b"] = Input{Files: []string{b}, Resample: "bilinear", Overviews: true} },
			"input b: the use of its overviews was off and is on"},
		"grid": {func(j *Job) { g := mapGrid(w, h+2, 0, 0); j.Controls.Reference, j.Controls.Grid = "", &g },
			"input b: the fingerprint of the grid that it is warped onto was "},
	} {
		job := make("x.tif")
		c.change(&job)
		job.Resume = true
		t.Log(name, failRun(t, job, c.want))
	}
	job := make("x.tif")
	job.Resume, job.Concurrency = true, Concurrency{Workers: 2, Readers: 2}
	if res := mustRun(t, job); res.Resumed == 0 {
		t.Error("no block was resumed")
	}
	sameFileBytes(t, "resumed", at("x.tif"), fileBytes(t, at("want.tif")))
}

func TestExactGridJSON(t *testing.T) {
	g := mapGrid(3, 4, 1, 1)
	g.Transform[0] = 0.1 + 0.2
	g.CRS = raster.CRS{Code: "", Name: "Stra\xdfe", WKT: "a\xff",
		Keys: &raster.GeoKeys{Directory: []uint16{1, 1, 0, 0}, Doubles: []float64{1. / 3}, ASCII: "M\xfcnchen|"}}
	w := jobspec.Warp{Grid: jobspec.ExactGrid{Grid: g}, Method: "near", MaxBytes: rand.Int64()}
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var back jobspec.Warp
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if c := back.Grid.CRS; c.Name != g.CRS.Name || c.WKT != g.CRS.WKT || c.Keys.ASCII != g.CRS.Keys.ASCII ||
		c.Keys.Doubles[0] != 1./3 || back.Grid.Transform != g.Transform || back.MaxBytes != w.MaxBytes ||
		back.Grid.Width != 3 {
		t.Errorf("%+v", back)
	}
}

func TestWorkerGDALVersion(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	off := mapGrid(40, 30, 0, 0)
	off.Transform[1] = 20
	b := write(t, filepath.Join(dir, "b.tif"), off, terrain[uint8](40, 30, 1), nil)
	version, err := gdal.Version()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		version string
		mixed   bool
		want    string
	}{{version, false, ""}, {"1.2.3", true, ""},
		{"1.2.3", false, "whose version is " + version + " here and 1.2.3 where the run is"}} {
		f := &resolve.File{Path: b, From: b}
		w := &jobspec.Warp{Grid: jobspec.ExactGrid{Grid: mapGrid(40, 30, 0, 0)}, Method: "near", Nodata: []string{""}, GDAL: c.version}
		err := f.Reopen(t.Context(), resolve.OpenLocal, w, c.mixed)
		if c.want != "" {
			wantError(t, err, c.want, "field Concurrency.AllowMixedBuilds")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if g := f.Source.Info().Grid; g.Width != 80 || g.Height != 30 {
			t.Errorf("%+v", g)
		}
		if err := f.Source.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNorthUpGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		px, turn := math.Pow(10, r.Float64()*7-4), r.Float64()*2*math.Pi
		g := raster.Grid{Width: 1 + r.IntN(5000), Height: 1 + r.IntN(5000), HasTransform: true,
			CRS: raster.CRS{Code: "EPSG:32631"}}
		g.Transform = raster.Transform{(r.Float64() - 0.5) * 1e6 * px, px * math.Cos(turn), px * math.Sin(turn),
			(r.Float64() - 0.5) * 1e6 * px, px * math.Sin(turn), -px * math.Cos(turn)}
		fields := strings.Split(resolve.NorthUp(g, ""), ",")
		var v []float64
		for _, s := range fields[1:] {
			n, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(fields, err)
			}
			v = append(v, n)
		}
		minX, minY, maxX, maxY := g.Bounds()
		size := v[4]
		for i, d := range []float64{minX - v[0], minY - v[1], v[2] - maxX, v[3] - maxY} {
			if d < -1e-3*size || d > 1.001*size {
				t.Errorf("%v: side %d of %v is off by %v pixels", g.Transform, i, fields, d/size)
			}
		}
		for _, n := range []float64{(v[2] - v[0]) / size, (v[3] - v[1]) / size} {
			if math.Abs(n-math.Round(n)) > 1e-3 || n < 1 {
				t.Errorf("%v: %v pixels", fields, n)
			}
		}
		if math.Abs(size/px-1) > 1e-3 {
			t.Errorf("%v: pixels of %v, not %v", fields, size, px)
		}
	}
	for want, g := range map[string]raster.Grid{"none,": {}, "x.tif,": {CRS: raster.CRS{WKT: "LOCAL_CS[]"}}} {
		g.Width, g.Height, g.Transform = 2, 2, raster.Transform{0, 1, 0.1, 0, 0.1, -1}
		if text := resolve.NorthUp(g, "x.tif"); !strings.HasPrefix(text, want) {
			t.Errorf("%q does not begin with %q", text, want)
		}
	}
}
