package apply

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/internal/pytest"
	"leat/ndarray"
)

// scaledFile writes a raster of 40 x 30 pixels with a scale, an offset and a unit.
func scaledFile(t testing.TB, path string, s outcome.Scaling) string {
	t.Helper()
	return write(t, path, mapGrid(40, 30, 0, 0), terrain[uint16](40, 30, 1),
		func(o *Output) { o.Scale, o.Offset, o.Unit = s.Scale, s.Offset, s.Unit })
}

func TestSelectionsInheritScaling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reflectance := outcome.Scaling{Scale: 0.0001, Offset: -0.1, Unit: "reflectance"}
	down := outcome.Scaling{Scale: -2, Offset: 7, Unit: "m"}
	plain := outcome.Scaling{Scale: 1}
	unitless, metres := reflectance, outcome.Scaling{Scale: 1, Unit: "m"}
	unitless.Unit = ""
	in := map[string]Input{}
	for name, s := range map[string]outcome.Scaling{"a": reflectance, "b": reflectance,
		"older": {Scale: 0.0001, Unit: "reflectance"}, "unitless": unitless, "down": down, "plain": plain,
		"metres": metres} {
		in[name] = File(scaledFile(t, filepath.Join(dir, name+".tif"), s))
	}
	files := func(names ...string) (list []string) {
		for _, n := range names {
			list = append(list, in[n].Files...)
		}
		return list
	}
	in["t"], in["mixed"] = Input{Files: files("a", "b"), List: true}, Input{Files: files("a", "older"), List: true}
	for _, c := range []struct {
		text string
		out  Output
		job  func(*Job)
		want []outcome.Scaling
		note string
	}{
		{text: "a", want: []outcome.Scaling{reflectance}},
		{text: "plain > 9 ? nodata : a", want: []outcome.Scaling{reflectance}},
		{text: "plain > 9 ? 0 : a", want: []outcome.Scaling{reflectance}},
		{text: "a > 9 ? a : b", want: []outcome.Scaling{reflectance}},
		{text: "a > 9 ? a : unitless", want: []outcome.Scaling{unitless}},
		{text: "[a, a / b, down, plain, metres]", want: []outcome.Scaling{reflectance, plain, down, plain, metres}},
		{text: "max(down, 3)", want: []outcome.Scaling{down}},
		{text: "mode(t)", want: []outcome.Scaling{reflectance}},
		{text: "focal_min(a, 3)", want: []outcome.Scaling{reflectance}},

		{text: "a > 9 ? a : older", want: []outcome.Scaling{plain}, note: "offset"},
		{text: "max(mixed)", want: []outcome.Scaling{plain}, note: "older.tif"},
		{text: "min(a, plain)", want: []outcome.Scaling{plain}, note: "plain.tif"},
		{text: "(a - b) / (a + b)", want: []outcome.Scaling{plain}},
		{text: "median(t)", want: []outcome.Scaling{plain}},
		{text: "a + 0", want: []outcome.Scaling{plain}},

		{text: "a", out: Output{Type: ndarray.Float32}, want: []outcome.Scaling{reflectance}},
		{text: "a", out: Output{Type: ndarray.Int16}, want: []outcome.Scaling{plain}, note: "int16"},
		{text: "min(a, 32767)", out: Output{Type: ndarray.Int16}, want: []outcome.Scaling{reflectance}},
		{text: "metres", out: Output{Type: ndarray.Int16}, want: []outcome.Scaling{metres}},
		{text: "plain", out: Output{Type: ndarray.Uint8}, want: []outcome.Scaling{plain}},

		{text: "a", out: Output{Unit: "K"}, want: []outcome.Scaling{{Scale: 0.0001, Offset: -0.1, Unit: "K"}}},
		{text: "a", out: Output{Scale: 1}, want: []outcome.Scaling{plain}},
		{text: "a", out: Output{Scale: 0.5}, want: []outcome.Scaling{{Scale: 0.5}}},
		{text: "a", out: Output{Offset: 2}, want: []outcome.Scaling{{Scale: 1, Offset: 2}}},
		{text: "[a, metres]", job: func(j *Job) { j.Controls.Unscale = true }, want: []outcome.Scaling{plain, metres}},
		{text: "[a, b]", job: func(j *Job) { a := j.Inputs["a"]; a.Scale = 1; j.Inputs["a"] = a },
			want: []outcome.Scaling{plain, reflectance}},
		{text: "[a, b]", job: func(j *Job) { a := j.Inputs["a"]; a.Scale, a.Offset = 3, 4; j.Inputs["a"] = a },
			want: []outcome.Scaling{plain, reflectance}},
	} {
		o := c.out
		o.Path = filepath.Join(t.TempDir(), "o.tif")
		job := Job{Inputs: maps.Clone(in), Expressions: map[string]string{"o": c.text},
			Outputs: map[string]Output{"o": o}}
		if c.job != nil {
			c.job(&job)
		}
		res := mustRun(t, job)
		if got := res.Plan.Outputs[0].Scalings; !slices.Equal(got, c.want) {
			t.Errorf("%s: the plan has %v, want %v", c.text, got, c.want)
		}
		for i, b := range open(t, o.Path).Info().Bands {
			if got := (outcome.Scaling{Scale: b.Scale, Offset: b.Offset, Unit: b.Unit}); got != c.want[i] {
				t.Errorf("%s: band %d of the file has %v, want %v", c.text, i+1, got, c.want[i])
			}
			if got := res.Outputs[0].Bands[i].Scaling; got != c.want[i] {
				t.Errorf("%s: band %d of the result has %v, want %v", c.text, i+1, got, c.want[i])
			}
		}
		notes := slices.DeleteFunc(noteTexts(res.Plan.Notes),
			func(n string) bool { return !strings.Contains(n, "scale") })
		if c.note == "" && len(notes) > 0 || c.note != "" && !strings.Contains(strings.Join(notes, "\n"), c.note) {
			t.Errorf("%s: notes %q, want one with %q", c.text, notes, c.note)
		}
	}
}

// A scale that no pixel can be computed with is not passed on.
func TestImpossibleScaleIsNotInherited(t *testing.T) {
	for _, s := range []outcome.Scaling{{Scale: 0, Offset: 2}, {Scale: math.NaN()}, {Scale: 1, Offset: math.Inf(1)}} {
		src := open(t, scaledFile(t, filepath.Join(t.TempDir(), "a.tif"), outcome.Scaling{Scale: 2}))
		b := &src.Info().Bands[0]
		b.Scale, b.Offset = s.Scale, s.Offset
		p, err := MakePlan(t.Context(), Job{Inputs: map[string]Input{"a": {Files: []string{"a.tif"}, Source: src}},
			Expressions: map[string]string{"o": "a"},
			Outputs:     map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.tif")}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Outputs[0].Scalings[0]; got != (outcome.Scaling{Scale: 1}) {
			t.Errorf("%v gives %v", s, got)
		}
	}
}

// makeScaled writes rasters with scales, offsets and units in the file, in sidecars, in a virtual
// raster and in netCDF.
const makeScaled = `
import json, sys
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
dir = json.load(sys.stdin)
r = np.random.default_rng(1)
d = gdal.GetDriverByName("GTiff").Create(f"{dir}/several.tif", 300, 200, 4, gdal.GDT_UInt16)
d.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
for n, (scale, offset, unit) in enumerate(((0.0001, -0.1, "reflectance"), (1, 273.15, "K"), (-0.5, 0, ""), (1, 0, "m")), 1):
    b = d.GetRasterBand(n)
    b.WriteArray(r.integers(1, 65536, (200, 300)))
    b.SetScale(scale); b.SetOffset(offset); b.SetUnitType(unit); b.SetNoDataValue(0)
d = None
gdal.Translate(f"{dir}/sidecar.img", f"{dir}/several.tif", format="HFA")
gdal.Translate(f"{dir}/virtual.vrt", f"{dir}/several.tif", format="VRT")
gdal.Translate(f"{dir}/one.nc", f"{dir}/several.tif", format="netCDF", bandList=[1])
print("null")
`

// compareScaled prints how the scaling of outputs differs from that of gdal_translate's output for
// their inputs.
const compareScaled = `
import json, sys
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
dir, names = json.load(sys.stdin)
faults = []
for name in names:
    gdal.Translate("/vsimem/want.tif", f"{dir}/{name}")
    want, got = gdal.Open("/vsimem/want.tif"), gdal.Open(f"{dir}/{name}_out.tif")
    if not any((want.GetRasterBand(i + 1).GetScale() or 1) != 1 for i in range(want.RasterCount)):
        faults.append(f"{name}: the input has no scale")
    for i in range(1, want.RasterCount + 1):
        w, g = want.GetRasterBand(i), got.GetRasterBand(i)
        a = w.ReadAsArray()
        v = a[a != 0]
        same = {
            "pixels": np.array_equal(a, g.ReadAsArray()),
            "scale": (w.GetScale() or 1) == (g.GetScale() or 1),
            "offset": (w.GetOffset() or 0) == (g.GetOffset() or 0),
            "unit": w.GetUnitType() == g.GetUnitType(),
            "statistics": np.allclose([v.min(), v.max(), v.mean(), v.std()], g.GetStatistics(False, False), rtol=1e-9),
            "overview": np.array_equal(a[::4, ::4], g.GetOverview(0).ReadAsArray()),
        }
        faults += [f"{name}: {what} of band {i}" for what, ok in same.items() if not ok]
    try:
        import rasterio
    except ImportError:
        continue
    with rasterio.open(f"{dir}/{name}") as f, rasterio.open(f"{dir}/{name}_out.tif") as o:
        for what in "scales", "offsets", "units":
            if getattr(f, what) != getattr(o, what):
                faults.append(f"{name}: rasterio's {what} {getattr(o, what)}, not {getattr(f, what)}")
json.dump(faults, sys.stdout)
`

func TestIdentityScalingEqualsGDALTranslate(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeScaled, dir, nil)
	names := []string{"several.tif", "sidecar.img", "virtual.vrt", "one.nc"}
	for _, name := range names {
		mustRun(t, Job{Inputs: map[string]Input{"a": File(filepath.Join(dir, name))},
			Expressions: map[string]string{"o": "a"},
			Outputs:     map[string]Output{"o": {Path: filepath.Join(dir, name+"_out.tif"), Overviews: []int{4}}}})
	}
	var faults []string
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, compareScaled, []any{dir, names}, &faults)
	for _, f := range faults {
		t.Error(f)
	}
}

func TestWarpedPixelsInheritScaling(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	want := outcome.Scaling{Scale: 0.0001, Offset: -0.1, Unit: "reflectance"}
	a := scaledFile(t, filepath.Join(dir, "a.tif"), want)
	for _, method := range []string{"near", "average", "cubic", "max"} {
		out := filepath.Join(dir, method+".tif")
		mustRun(t, Job{Inputs: map[string]Input{"a": {Files: []string{a}, Resample: method}},
			Expressions: map[string]string{"o": "a"}, Outputs: map[string]Output{"o": {Path: out}},
			Controls: Controls{PixelSize: [2]float64{25, 25}}})
		b := open(t, out).Info().Bands[0]
		if got := (outcome.Scaling{Scale: b.Scale, Offset: b.Offset, Unit: b.Unit}); got != want {
			t.Errorf("%s: %v", method, got)
		}
	}
}

// A format that can't hold a scale drops one that is inherited, and refuses one that the job gives.
func TestFormatWithoutScale(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	a := scaledFile(t, filepath.Join(t.TempDir(), "a.tif"), outcome.Scaling{Scale: 0.5, Unit: "m"})
	job := Job{Inputs: map[string]Input{"a": File(a)}, Expressions: map[string]string{"o": "a"},
		Outputs: map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.gpkg"), Format: "GPKG"}}}
	res := mustRun(t, job)
	notes := strings.Join(noteTexts(res.Outputs[0].Warnings), "\n")
	if !strings.Contains(notes, "scale and offset of the inputs") {
		t.Errorf("warnings %q", notes)
	}
	job.Outputs["o"] = Output{Path: filepath.Join(t.TempDir(), "o.gpkg"), Format: "GPKG", Scale: 0.5,
		Type: ndarray.Uint16}
	failRun(t, job, "scale and offset")
}
