package apply

import (
	"bytes"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
)

func TestWarpKeepsHeights(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	grid := mapGrid(40, 40, 0, 0)
	off := grid
	off.Transform[0] += grid.Transform[1] / 4
	px := terrain[uint8](40, 40, 1)
	reference := write(t, filepath.Join(dir, "reference.tif"), grid, px, nil)
	flat := write(t, filepath.Join(dir, "flat.tif"), off, px, nil)
	high, out := filepath.Join(dir, "high.tif"), filepath.Join(dir, "out.tif")
	pytest.Run(t, []string{"osgeo.gdal"}, `import json, sys
from osgeo import gdal
high, flat, code = json.load(sys.stdin)
gdal.Translate(high, flat, outputSRS=code + "+5773")
json.dump(None, sys.stdout)`, []string{high, flat, off.CRS.Code}, nil)
	var got [2][]byte
	for i, path := range []string{flat, high} {
		mustRun(t, onto(path, reference, "bilinear", out))
		got[i] = rawPixels(t, out)
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Error("the pixels differ")
	}
}
