package gdal

import (
	"encoding/base64"
	"math"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
	"leat/raster"
)

const makeTurns = `
import json, sys, math
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
dir = json.load(sys.stdin)
def put(name, code, x, y, size, n):
    d = gdal.GetDriverByName("GTiff").Create(dir + "/" + name, n, n, 1, gdal.GDT_Byte)
    s = osr.SpatialReference(); s.ImportFromEPSG(code); d.SetSpatialRef(s)
    d.SetGeoTransform((x - n * size / 2, size, 0, y + n * size / 2, 0, -size))
    d.GetRasterBand(1).WriteArray(np.random.RandomState(n).randint(1, 255, (n, n)).astype(np.uint8))
put("america.tif", 32614, 414600, 4428200, 5000, 60)
put("fiji.tif", 32701, 182000, 8008000, 2000, 101)
put("greenwich.tif", 32631, 263500, 4987300, 2000, 102)
put("world.tif", 3857, 0, 0, 2 * math.pi * 6378137 / 200, 200)
put("pole.tif", 3413, 0, 0, 40000, 201)
print("{}")
`

const turnTruth = `
import json, sys, base64
from osgeo import gdal, osr
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    s = osr.SpatialReference(); s.SetFromUserInput(c["crs"]); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    d = gdal.GetDriverByName("MEM").Create("", c["w"], c["h"], 1, gdal.GDT_Byte)
    d.SetGeoTransform(c["six"]); d.SetSpatialRef(s)
    gdal.Warp(d, c["path"], errorThreshold=0)
    out.append(base64.b64encode(d.ReadAsArray().tobytes()).decode())
json.dump(out, sys.stdout)
`

// A place has many longitudes: the footprint uses the one near the reference, whose own longitudes
// may go from 0 to 360.
func TestWrapsAroundAntimeridian(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeTurns, dir, nil)
	type place struct {
		Path string     `json:"path"`
		CRS  string     `json:"crs"`
		Six  [6]float64 `json:"six"`
		W    int        `json:"w"`
		H    int        `json:"h"`
		from float64    // smallest and largest x of the footprint, to a pixel
		to   float64
	}
	const equator = 2 * math.Pi * 6378137
	list := []place{
		{"america.tif", "EPSG:4326", [6]float64{0, 0.1, 0, 80, 0, -0.1}, 3600, 800, 258.2, 261.8},
		{"america.tif", "EPSG:4326", [6]float64{-180, 0.1, 0, 80, 0, -0.1}, 3600, 800, -101.8, -98.2},
		{"america.tif", "EPSG:4326", [6]float64{200, 0.1, 0, 50, 0, -0.1}, 1000, 200, 258.2, 261.8},
		{"fiji.tif", "EPSG:4326", [6]float64{170, 0.02, 0, -10, 0, -0.02}, 1000, 750, 179.04, 180.98},
		{"fiji.tif", "EPSG:4326", [6]float64{-190, 0.02, 0, -10, 0, -0.02}, 1000, 750, -180.96, -179.02},
		{"fiji.tif", "EPSG:3857", [6]float64{equator / 2, 2000, 0, -1e6, 0, -2000}, 200, 800, equator/2 - 106000,
			equator/2 + 108000},
		{"greenwich.tif", "EPSG:4326", [6]float64{0, 0.1, 0, 60, 0, -0.1}, 3600, 300, 0, 360},
		{"world.tif", "EPSG:4326", [6]float64{-180, 1, 0, 90, 0, -1}, 360, 180, -180, 180},
		{"world.tif", "EPSG:4326", [6]float64{0, 1, 0, 90, 0, -1}, 360, 180, 0, 360},
		{"world.tif", "EPSG:4326", [6]float64{5, 1, 0, 50, 0, -1}, 40, 30, -180, 180},
		{"world.tif", "EPSG:4326", [6]float64{-360, 1, 0, 90, 0, -1}, 720, 180, -360, 360},
		{"america.tif", "EPSG:4326", [6]float64{-180.5, 1, 0, 80, 0, -1}, 361, 80, -101.5, -98.5},
		{"fiji.tif", "EPSG:4326", [6]float64{-180.5, 1, 0, 0, 0, -1}, 361, 40, -180.5, 180.5},
		{"pole.tif", "EPSG:4326", [6]float64{-180, 1, 0, 90, 0, -1}, 360, 90, -180, 180},
		{"pole.tif", "EPSG:4326", [6]float64{100, 0.5, 0, 90, 0, -0.5}, 400, 90, 20, 380},
	}
	for i := range list {
		list[i].Path = filepath.Join(dir, list[i].Path)
	}
	var truth []string
	pytest.Run(t, []string{"osgeo.gdal"}, turnTruth, list, &truth)
	for i, k := range list {
		t.Run(filepath.Base(k.Path)+" "+k.CRS, func(t *testing.T) {
			g := raster.Grid{Width: k.W, Height: k.H, HasTransform: true, Transform: k.Six,
				CRS: raster.CRS{Code: k.CRS}}
			w, err := Warp(k.Path, &WarpOptions{Grid: g})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if minX, _, maxX, _ := w.Info().Grid.Bounds(); math.Abs(minX-k.from) > 1.01*k.Six[1] ||
				math.Abs(maxX-k.to) > 1.01*k.Six[1] {
				t.Errorf("it lies from %.9g to %.9g, not %.9g to %.9g", minX, maxX, k.from, k.to)
			}
			got, _ := onReference(t, w, g)
			want, _ := base64.StdEncoding.DecodeString(truth[i])
			some := false
			for _, v := range want {
				some = some || v != 0
			}
			if !some {
				t.Error("gdalwarp gives nothing")
			}
			differ(t, k.CRS, got, want, nil, nil)
		})
	}
}
