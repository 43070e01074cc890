package main

import (
	"testing"

	"leat/internal/pytest"
)

// comingFromTruth compares rasters of pairs of commands, where leat's is valid.
const comingFromTruth = `
import json, os, sys
import numpy as np
import rasterio
given = json.load(sys.stdin)
os.chdir(given["dir"])
result = {}
for name, tolerance in given["pairs"].items():
    with rasterio.open(name + ".tif") as f, rasterio.open(name + "-other.tif") as g:
        got, want, valid = f.read(1), g.read(1), f.read_masks(1) > 0
        other = g.read_masks(1) > 0
    bad = (np.abs(got.astype("f8") - want) > tolerance) & valid
    result[name] = ""
    if bad.any() or valid.sum() < 1000 or (g.nodata is not None and (valid != other).any()):
        result[name] = "%d of %d pixels differ, %d validities" % (bad.sum(), valid.sum(), (valid != other).sum())
json.dump(result, sys.stdout)
`

// TestComingFromCommandsGiveEqualPixels runs the pairs of commands that docs/coming-from.md calls
// equal and compares their pixels.
func TestComingFromCommandsGiveEqualPixels(t *testing.T) {
	t.Parallel()
	page := newPageRun(t, "gdal_calc.py")
	page.run(t, "leat demo --size 400 demo && mv demo/B04.tif a.tif && mv demo/B08.tif b.tif")
	pairs := map[string]float64{}
	for _, p := range []struct{ name, calc, inputs, expr string }{
		{"where", "-A a.tif -B b.tif --calc='numpy.where(A>B,A,B)'", "-i a=a.tif -i b=b.tif", "where(a > b, a, b)"},
		{"choice", "-A a.tif -B b.tif --calc='numpy.where(A>2000,A,B)'", "-i a=a.tif -i b=b.tif", "a > 2000 ? a : b"},
		{"mean", "-A a.tif b.tif --calc='numpy.average(A,axis=0)' --type=Float32", "-i a=a.tif -i a=b.tif", "mean(a)"},
		{"product", "-A a.tif --calc='A*(A>2000)'", "-i a=a.tif", "a * (a > 2000)"},
		{"difference", "-A a.tif -B b.tif --calc='A.astype(float)-B' --type=Int32", "-i a=a.tif -i b=b.tif", "a - b"},
		{"logic", "-A a.tif -B b.tif --calc='logical_and(A>1500,B<4000)' --type=Byte", "-i a=a.tif -i b=b.tif",
			"a > 1500 and b < 4000"},
	} {
		page.run(t, "gdal_calc.py --quiet "+p.calc+" --outfile="+p.name+"-other.tif && leat apply -q "+p.inputs+" -o o="+
			p.name+".tif -e '"+p.expr+"'")
		pairs[p.name] = 0
	}
	pairs["mean"] = 1e-3 // of float32 values up to 65535
	var differences map[string]string
	pytest.Run(t, []string{"numpy", "rasterio"}, comingFromTruth, map[string]any{"dir": page.dir, "pairs": pairs},
		&differences)
	if len(differences) != len(pairs) {
		t.Errorf("compared %d pairs", len(differences))
	}
	for name, difference := range differences {
		if difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
}
