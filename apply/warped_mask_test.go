package apply

import (
	"path/filepath"
	"testing"

	"leat/internal/pytest"
)

// A pixel that a mask excludes becomes nodata, whether or not its window has nodata of its own.
func TestWarpNodataAndMask(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	path, reference := filepath.Join(dir, "a.tif"), filepath.Join(dir, "ref.tif")
	var want []byte
	var text []int
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, `
import json, sys
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
p = json.load(sys.stdin)
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
s = osr.SpatialReference(); s.ImportFromEPSG(32631)
v = np.arange(1, 101, dtype=np.uint8).reshape(10, 10); v[2, 3] = 7; v[5] = 7
m = np.full((10, 10), 255, np.uint8); m[:, 8] = 0
d = gdal.GetDriverByName("GTiff").Create(p[0], 10, 10, 1, gdal.GDT_Byte)
d.SetGeoTransform((500000, 20, 0, 5000000, 0, -20)); d.SetSpatialRef(s)
d.GetRasterBand(1).WriteArray(v); d.GetRasterBand(1).SetNoDataValue(7)
d.CreateMaskBand(gdal.GMF_PER_DATASET); d.GetRasterBand(1).GetMaskBand().WriteArray(m); d = None
d = gdal.GetDriverByName("GTiff").Create(p[1], 20, 20, 1, gdal.GDT_Byte)
d.SetGeoTransform((500000, 10, 0, 5000000, 0, -10)); d.SetSpatialRef(s); d = None
json.dump(np.where(m == 0, 7, v).repeat(2, 0).repeat(2, 1).flatten().tolist(), sys.stdout)`, []string{path, reference},
		&text)
	for _, v := range text {
		want = append(want, byte(v))
	}
	out := filepath.Join(dir, "out.tif")
	if _, err := Run(t.Context(), onto(path, reference, "near", out)); err != nil {
		t.Fatal(err)
	}
	sameRaw(t, "nodata and a mask", rawPixels(t, out), want)
}
