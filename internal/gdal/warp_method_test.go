package gdal

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

func TestWindowDependentMethods(t *testing.T) {
	err := CheckMethod("sum")
	if err == nil || !strings.Contains(err.Error(), "average") {
		t.Errorf("%v", err)
	}
	for _, name := range Methods() {
		if methods[name].number == 13 {
			t.Errorf("%s is GDAL's sum", name)
		}
	}
}

// With the true scale, GDAL swaps the columns of an input that few pixels cover: it treats these
// pixels as wrapped around the earth.
func TestAverageOfSmallInput(t *testing.T) {
	needGDAL(t)
	path := filepath.Join(t.TempDir(), "a.tif")
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, `
import json, sys
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
d = gdal.GetDriverByName("GTiff").Create(json.load(sys.stdin), 120, 120, 1, gdal.GDT_Float64)
s = osr.SpatialReference(); s.ImportFromEPSG(32631); d.SetSpatialRef(s)
d.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
d.GetRasterBand(1).WriteArray(np.add.outer(np.arange(120) * 1000.0, np.arange(120)))
print("{}")`, path, nil)
	for across := 1; across <= 12; across++ {
		if 120%across != 0 {
			continue
		}
		n := 120 / across // input pixels per pixel of the grid
		size := 10 * float64(n)
		g := raster.Grid{Width: across, Height: across, HasTransform: true,
			Transform: raster.Transform{500000, size, 0, 5000000, 0, -size}, CRS: raster.CRS{Code: "EPSG:32631"}}
		w, err := Warp(path, &WarpOptions{Grid: g, Method: "average"})
		if across < 4 {
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another method") {
				t.Errorf("%d pixels: %v", across, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		col, row := w.Offset()
		a := ndarray.New(ndarray.Float64, 1, across, across)
		if err := w.Read(t.Context(), []int{1}, g.Window().Shift(-col, -row), a); err != nil {
			t.Fatal(err)
		}
		for y := range across {
			for x := range across {
				half := float64(n-1) / 2
				want := (float64(y*n)+half)*1000 + float64(x*n) + half
				if v := math.Float64frombits(binary.NativeEndian.Uint64(a.Raw()[(y*across+
					x)*8:])); math.Abs(v-want) > 1e-6 {
					t.Errorf("of %d pixels, column %d, row %d is %v, not %v", across, x, y, v, want)
				}
			}
		}
	}
}
