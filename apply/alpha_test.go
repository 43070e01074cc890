package apply

import (
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/raster"
)

// makeRGBA writes rasters whose last band is alpha: RGBA of uint8 and uint16, grey and alpha of
// uint32, and an RGBA with nodata.
const makeRGBA = `
import json, sys
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
dir = json.load(sys.stdin)
r = np.random.default_rng(1)
for name, n, typ, nodata in (("rgba", 4, gdal.GDT_Byte, None), ("rgba16", 4, gdal.GDT_UInt16, None), ("ga", 2, gdal.GDT_Byte, None),
                             ("ga32", 2, gdal.GDT_UInt32, None), ("ga64", 2, gdal.GDT_UInt64, None), ("nodata", 4, gdal.GDT_Byte, 7)):
    d = gdal.GetDriverByName("GTiff").Create(f"{dir}/{name}.tif", 700, 600, n, typ, ["PHOTOMETRIC=RGB", "ALPHA=YES"] if n == 4 else [])
    d.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
    for b in range(1, n):
        d.GetRasterBand(b).WriteArray(r.integers(0, 256, (600, 700)))
    a = np.zeros((600, 700), np.uint8)
    a[53:500, 31:651] = 255
    a[60:70] = 1
    d.GetRasterBand(n).SetColorInterpretation(gdal.GCI_AlphaBand)
    d.GetRasterBand(n).WriteArray(a)
    if nodata is not None:
        d.GetRasterBand(1).SetNoDataValue(nodata)
    d = None
print("null")
`

// compareRGBA prints how outputs differ from gdal_translate's output for their inputs.
const compareRGBA = `
import json, sys
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
dir, names = json.load(sys.stdin)
faults = []
def means(a, ok):
    h, w = a.shape
    a, ok = np.where(ok, a, 0).astype(np.int64), ok.astype(np.int64)
    total = a.reshape(h // 4, 4, w // 4, 4).sum((1, 3)); n = ok.reshape(h // 4, 4, w // 4, 4).sum((1, 3))
    return np.where(n > 0, (2 * total + n) // np.maximum(2 * n, 1), 0)
for name in names:
    gdal.Translate("/vsimem/want.tif", f"{dir}/{name}.tif")
    want, got = gdal.Open("/vsimem/want.tif"), gdal.Open(f"{dir}/{name}_out.tif")
    for i in range(1, want.RasterCount + 1):
        w, g = want.GetRasterBand(i), got.GetRasterBand(i)
        same = {
            "pixels": np.array_equal(w.ReadAsArray(), g.ReadAsArray()),
            "colour": w.GetColorInterpretation() == g.GetColorInterpretation(),
            "mask flags": w.GetMaskFlags() == g.GetMaskFlags(),
            "mask": np.array_equal(w.GetMaskBand().ReadAsArray(), g.GetMaskBand().ReadAsArray()),
            "nodata": w.GetNoDataValue() == g.GetNoDataValue(),
        }
        v = w.ReadAsArray()[w.GetMaskBand().ReadAsArray() != 0]
        same["statistics"] = np.allclose([v.min(), v.max(), v.mean(), v.std()], g.GetStatistics(False, False), rtol=1e-9)
        if w.GetNoDataValue() is None:
            same["overview"] = np.array_equal(means(w.ReadAsArray(), w.GetMaskBand().ReadAsArray() != 0), g.GetOverview(0).ReadAsArray())
        faults += [f"{name}: {what} of band {i}" for what, ok in same.items() if not ok]
json.dump(faults, sys.stdout)
`

func TestAlphaBandInOutput(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeRGBA, dir, nil)
	names := []string{"rgba", "rgba16", "ga", "ga32", "ga64", "nodata"}
	for i, name := range names {
		out := Output{Path: filepath.Join(dir, name+"_out.tif"), Overviews: []int{4}, OverviewMethod: "average",
			PixelInterleave: i%2 == 1}
		mustRun(t, Job{Inputs: map[string]Input{"a": File(filepath.Join(dir, name+".tif"))},
			Expressions: map[string]string{"o": "a"}, Outputs: map[string]Output{"o": out}})
	}
	var faults []string
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, compareRGBA, []any{dir, names}, &faults)
	for _, f := range faults {
		t.Error(f)
	}
}

func TestAlphaMasksComputedBands(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeRGBA, dir, nil)
	const opaque = 437*620 + 10*700 // pixels of the file
	in := map[string]Input{"a": File(filepath.Join(dir, "rgba.tif"))}
	path := in["a"].Files[0]
	beyond := write(t, filepath.Join(dir, "beyond.tif"),
		func() raster.Grid { g := mapGrid(700, 700, 0, 0); g.CRS = raster.CRS{}; return g }(), make([]uint8, 700*700),
		nil)
	out := filepath.Join(dir, "union.tif")
	res := mustRun(t, Job{Inputs: map[string]Input{"a": File(path), "b": File(beyond)},
		Expressions: map[string]string{"o": "a", "p": "a[4] + 0.5"},
		Outputs:     map[string]Output{"o": {Path: out}, "p": {Path: filepath.Join(dir, "p.tif")}},
		Controls:    Controls{Footprint: Union}})
	if o := res.Outputs[0]; o.Nodata != nil || o.Bands[0].Valid != opaque ||
		o.Bands[3].Valid != 700*700 {
		t.Errorf("beyond the file: nodata %v, %d and %d valid pixels", o.Nodata, o.Bands[0].Valid,
			o.Bands[3].Valid)
	}
	if o := res.Outputs[1]; o.Bands[0].Valid != 700*600 {
		t.Errorf("alpha alone, beyond the file: %d valid pixels", o.Bands[0].Valid)
	}
	for expression, want := range map[string]int64{
		"a[1] + 0.5":                  opaque,
		"a[4] + 0.5":                  700 * 600,
		"[a[1] + 0.5, a[4]]":          opaque,
		"isnodata(a[1]) ? nodata : 1": opaque,
		"isnodata(a[4]) ? nodata : 1": 700 * 600,
	} {
		res := mustRun(t, Job{Inputs: in, Expressions: map[string]string{"o": expression},
			Outputs: map[string]Output{"o": {Path: filepath.Join(dir, "o.tif")}}})
		if got := res.Outputs[0].Bands[0].Valid; got != want {
			t.Errorf("%s: %d valid pixels, not %d", expression, got, want)
		}
	}
}
