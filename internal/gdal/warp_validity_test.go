package gdal

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"leat/internal/pytest"
)

const makeValidityCases = `
import json, sys, os
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
p = json.load(sys.stdin)
s = osr.SpatialReference(); s.ImportFromEPSG(32631)
g = np.random.RandomState(3)
for c in p["cases"]:
    gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "NO" if c["mask"] == "msk" else "YES")
    n = c["bands"]
    d = gdal.GetDriverByName("GTiff").Create(c["path"], 40, 30, n + c["alpha"], gdal.GDT_Byte, ["ALPHA=YES"] if c["alpha"] else [])
    d.SetGeoTransform((500000, 20, 0, 5000000, 0, -20)); d.SetSpatialRef(s)
    for k in range(n):
        v = g.randint(1, 9, (30, 40)); v[:, :12] += 10 # no nodata on the left
        d.GetRasterBand(k + 1).WriteArray(v.astype(np.uint8))
    if c["alpha"]: d.GetRasterBand(n + 1).WriteArray((g.randint(0, 3, (30, 40)) * 127).astype(np.uint8))
    if c["nodata"]: d.GetRasterBand(1).SetNoDataValue(3)
    if c["values"]: d.SetMetadataItem("NODATA_VALUES", " ".join(["4"] * n))
    if c["mask"]:
        d.CreateMaskBand(gdal.GMF_PER_DATASET)
        d.GetRasterBand(1).GetMaskBand().WriteArray(np.where(g.uniform(size=(30, 40)) < 0.3, 0, 255).astype(np.uint8))
    d = None
`

// TestWarpValidityCombinations compares masks, nodata and alpha in one file with gdalwarp, which
// with UNIFIED_SRC_NODATA=NO and two bands applies nodata and masks in all of its chunks.
func TestWarpValidityCombinations(t *testing.T) {
	needGDAL(t)
	type file struct {
		Path   string `json:"path"`
		Bands  int    `json:"bands"`
		Alpha  bool   `json:"alpha"`
		Nodata bool   `json:"nodata"`
		Values bool   `json:"values"`
		Mask   string `json:"mask"`
	}
	dir := t.TempDir()
	var files []file
	var list []warpCase
	var warped []*Warped
	for i := range 2 * 2 * 2 * 2 * 3 {
		files = append(files, file{filepath.Join(dir, fmt.Sprint(i, ".tif")), 1 + 2*(i&1), i&2 != 0, i&4 != 0, i&8 != 0,
			[]string{"", "internal", "msk"}[i/16]})
	}
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeValidityCases, map[string]any{"cases": files}, nil)
	for _, f := range files {
		for _, method := range []string{"near", "bilinear", "average"} {
			k := warpCase{Path: f.Path, CRS: "EPSG:32631", Six: [6]float64{499960, 23, 0, 5000040, 0, -23}, Width: 40,
				Height: 32, Method: method, Valid: "none", Where: fmt.Sprintf("%+v", f)}
			switch masked := f.Mask != "" || f.Values; {
			case f.Alpha:
				k.Valid = "alpha"
			case masked && f.Nodata:
				k.Valid = "both"
			case masked:
				k.Valid = "mask"
			case f.Nodata:
				k.Valid = "nodata"
			}
			w, err := Warp(k.Path, &WarpOptions{Grid: k.grid(), Method: method})
			if err != nil {
				t.Fatalf("%v: %v", k, err)
			}
			t.Cleanup(func() { w.Close() })
			if w.shift != [2]int{} {
				t.Fatalf("%v: the grid begins outside the file", k)
			}
			x, y := w.Scales()
			k.XScale, k.YScale = strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(y, 'g', -1, 64)
			k.Area = w.method.area
			list, warped = append(list, k), append(warped, w)
		}
	}
	var truth []struct{ Pixels, Valid string }
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, warpTruth, list, &truth)
	for i, k := range list {
		got, valid := onReference(t, warped[i], k.grid())
		want, _ := base64.StdEncoding.DecodeString(truth[i].Pixels)
		wantValid, _ := base64.StdEncoding.DecodeString(truth[i].Valid)
		withoutRim(t, k.String(), warped[i], got, want, valid, wantValid)
		differ(t, k.String(), got, want, valid, wantValid)
	}
}
