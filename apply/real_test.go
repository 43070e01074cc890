package apply

import (
	"os/exec"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
)

// ndviScript compares outputs with NumPy's float32 NDVI of B4 and B5, and with their georeferencing
// as GDAL sees it.
const ndviScript = `
import json, sys, numpy as np
from osgeo import gdal
gdal.UseExceptions()
red, nir, outs = json.load(sys.stdin)
def read(p):
    d = gdal.Open(p)
    return d, d.GetRasterBand(1).ReadAsArray()
d, r = read(red); _, n = read(nir)
r, n = r.astype('float32'), n.astype('float32')
want = (n - r) / (n + r)
for path in outs:
    o, got = read(path)
    assert got.dtype == np.float32, (path, got.dtype)
    assert np.array_equal(got, want, equal_nan=True), (path, int((got != want).sum()))
    assert o.GetGeoTransform() == d.GetGeoTransform(), (path, o.GetGeoTransform())
    assert o.GetProjection() == d.GetProjection(), path
    assert o.GetMetadataItem('AREA_OR_POINT') == d.GetMetadataItem('AREA_OR_POINT') == 'Point', path
print('null')
`

func TestRealNDVIMatchesNumPy(t *testing.T) {
	t.Parallel()
	red, nir := repositoryData(t, "landsat8/l8_B4.tif"), repositoryData(t, "landsat8/l8_B5.tif")
	pytest.Python(t, "numpy", "osgeo.gdal")
	dir := t.TempDir()
	var outs []string
	ndvi := func(name string, inputs map[string]Input, expression string, c Controls) {
		out := filepath.Join(dir, name+".tif")
		mustRun(t, Job{Inputs: inputs, Outputs: map[string]Output{"ndvi": {Path: out}},
			Expressions: map[string]string{"ndvi": expression}, Controls: c})
		outs = append(outs, out)
	}
	const math = "(nir - red) / (nir + red)"
	ndvi("as-it-comes", map[string]Input{"red": File(red), "nir": File(nir)}, math, Controls{})
	ndvi("small-blocks", map[string]Input{"red": File(red), "nir": File(nir)}, math,
		Controls{WindowWidth: 512, WindowHeight: 512})
	for name, options := range map[string][]string{
		"tiled": {"-co", "TILED=YES", "-co", "BLOCKXSIZE=256", "-co", "BLOCKYSIZE=128", "-co", "COMPRESS=DEFLATE",
			"-co", "PREDICTOR=2"},
		"lzw":     {"-co", "COMPRESS=LZW", "-co", "PREDICTOR=2"},
		"signed":  {"-ot", "Int16"},
		"float":   {"-ot", "Float32", "-co", "COMPRESS=ZSTD", "-co", "PREDICTOR=3", "-co", "TILED=YES"},
		"bigtiff": {"-co", "BIGTIFF=YES", "-co", "ENDIANNESS=BIG", "-co", "COMPRESS=PACKBITS"},
	} {
		inputs := map[string]Input{}
		for band, from := range map[string]string{"red": red, "nir": nir} {
			copied := filepath.Join(dir, name+"-"+band+"-in.tif")
			gdalProgram(t, "gdal_translate", append(append([]string{"-q"}, options...), from, copied)...)
			inputs[band] = File(copied)
		}
		ndvi(name, inputs, math, Controls{})
	}
	vrt, pixel := filepath.Join(dir, "both.vrt"), filepath.Join(dir, "pixel-in.tif")
	gdalProgram(t, "gdalbuildvrt", "-q", "-separate", vrt, red, nir)
	gdalProgram(t, "gdal_translate", "-q", "-co", "INTERLEAVE=PIXEL", "-co", "COMPRESS=DEFLATE", "-mo",
		"AREA_OR_POINT=Point", vrt, pixel)
	ndvi("pixel", map[string]Input{"s": File(pixel)}, "(s[2] - s[1]) / (s[2] + s[1])", Controls{})
	pytest.Run(t, []string{"numpy", "osgeo.gdal"}, ndviScript, []any{red, nir, outs}, nil)
}

func gdalProgram(t *testing.T, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: apt-get install gdal-bin)", program)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
