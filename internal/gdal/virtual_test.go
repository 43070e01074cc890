package gdal

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/raster"
)

func TestPlanWarpMatchesResult(t *testing.T) {
	list, warped := randomPairs(t, *warpSeed+2000, 40)
	for i, k := range list {
		f := open(t, k.Path)
		w, err := PlanWarp(f.Info(), &WarpOptions{Grid: k.grid(), Method: k.Method})
		if err != nil {
			t.Errorf("%v: %v", k, err)
			continue
		}
		defer w.Close()
		a, b := w.Info(), warped[i].Info()
		ac, ar := w.Offset()
		bc, br := warped[i].Offset()
		ax, ay := w.Scales()
		bx, by := warped[i].Scales()
		if a.Grid.Width != b.Grid.Width || a.Grid.Height != b.Grid.Height || a.Grid.Transform != b.Grid.Transform ||
			a.Mask != b.Mask || a.Path != b.Path || ac != bc || ar != br || ax != bx || ay != by {
			t.Errorf("%v: %+v at %d,%d, %v %v; foreseen were %+v at %d,%d, %v %v", k, b.Grid, bc, br, bx, by, a.Grid,
				ac, ar, ax, ay)
		}
		for n := range b.Bands {
			if x, y := a.Bands[n].Nodata,
				b.Bands[n].Nodata; (x == nil) != (y == nil) || x != nil && *x != *y ||
				a.Bands[n].Type != b.Bands[n].Type {
				t.Errorf("%v: band %d: %+v, foreseen was %+v", k, n+1, b.Bands[n], a.Bands[n])
			}
		}
	}
}

// stripTruth warps copies of rasters without nodata, mask and alpha.
const stripTruth = `
import json, sys, base64
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    src = gdal.Open(c["path"])
    plain = gdal.GetDriverByName("MEM").Create("", src.RasterXSize, src.RasterYSize, src.RasterCount, src.GetRasterBand(1).DataType)
    plain.SetGeoTransform(src.GetGeoTransform()); plain.SetSpatialRef(src.GetSpatialRef())
    for k in range(src.RasterCount):
        plain.GetRasterBand(k + 1).WriteArray(src.GetRasterBand(k + 1).ReadAsArray())
    s = osr.SpatialReference(); s.SetFromUserInput(c["crs"]); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    def warp(alpha):
        d = gdal.GetDriverByName("MEM").Create("", c["width"], c["height"], src.RasterCount + alpha, src.GetRasterBand(1).DataType)
        d.SetGeoTransform(c["six"]); d.SetSpatialRef(s)
        if alpha: d.GetRasterBand(src.RasterCount + 1).SetColorInterpretation(gdal.GCI_AlphaBand)
        gdal.Warp(d, plain, errorThreshold=0, resampleAlg=c["method"], warpMemoryLimit=2000, dstAlpha=bool(alpha),
            warpOptions=["XSCALE=" + c["xscale"], "YSCALE=" + c["yscale"], "SRC_FILL_RATIO_HEURISTICS=NO", "SOURCE_EXTRA=1000"])
        return d
    d, m = warp(0), warp(1)
    pixels = np.stack([d.GetRasterBand(k + 1).ReadAsArray() for k in range(src.RasterCount)])
    valid = m.GetRasterBand(src.RasterCount + 1).ReadAsArray() > 0
    out.append(dict(pixels=base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode(),
                    valid=base64.b64encode(valid.astype(np.uint8).tobytes()).decode()))
json.dump(out, sys.stdout)
`

func TestVirtualWithoutMask(t *testing.T) {
	list, warped := randomPairs(t, *warpSeed+3000, 40)
	bare := make([]*Warped, len(list))
	for i := range list {
		k := &list[i]
		w, err := Warp(k.Path, &WarpOptions{Grid: k.grid(), Method: k.Method, NoMask: true, Nodata: []string{"7"}})
		if err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		defer w.Close()
		bare[i] = w
		if x, y := w.Scales(); w.Info().Mask != raster.MaskDataset || w.Info().AlphaBand() != 0 ||
			w.Info().Bands[0].Nodata != nil || w.xs != warped[i].xs || x == 0 || y == 0 {
			t.Errorf("%v: it is described as %+v", k, w.Info())
		}
	}
	var truth []struct{ Pixels, Valid string }
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, stripTruth, list, &truth)
	kinds := map[string]int{}
	for i, k := range list {
		got, valid := onReference(t, bare[i], k.grid())
		for p := range valid { // by the mask
			if at := bare[i]; valid[p] == 0 {
				col, row := at.Offset()
				if w := (raster.Window{Col: p%k.Width - col, Row: p/k.Width - row, Width: 1,
					Height: 1}); at.Info().Grid.Window().Contains(w) {
					var m [1]byte
					if err := at.ReadMask(t.Context(), w, m[:]); err != nil {
						t.Fatal(err)
					}
					if m[0] != 0 {
						valid[p] = 1
					}
				}
			}
		}
		want, _ := base64.StdEncoding.DecodeString(truth[i].Pixels)
		wantValid, _ := base64.StdEncoding.DecodeString(truth[i].Valid)
		kinds[k.Valid] += bytes.Count(wantValid, []byte{1})
		withoutRim(t, k.String(), bare[i], got, want, valid, wantValid)
		differ(t, k.String(), got, want, valid, wantValid)
	}
	for _, kind := range []string{"none", "nodata", "mask", "alpha", "both"} {
		if kinds[kind] == 0 && *warpSeed == 1 {
			t.Errorf("no valid pixel of a raster with %s was compared", kind)
		}
	}
}

func TestTransformedExtent(t *testing.T) {
	needGDAL(t)
	g := raster.Grid{Width: 4000, Height: 3000, HasTransform: true,
		Transform: raster.Transform{-2000000, 1000, 0, 1500000, 0, -1000}, CRS: raster.CRS{Code: "EPSG:3413"}}
	pytestBox := func(code string) (box [4]float64) {
		pytest.Run(t, []string{"osgeo.gdal", "numpy"}, `
import json, sys
import numpy as np
from osgeo import osr
osr.UseExceptions()
p = json.load(sys.stdin)
def srs(code):
    s = osr.SpatialReference()
    s.SetFromUserInput(code)
    s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return s
t = osr.CoordinateTransformation(srs(p["from"]), srs(p["to"]))
x0, y0, x1, y1 = p["box"]
n = 4000
e = [(x0 + (x1 - x0) * i / n, y) for i in range(n + 1) for y in (y0, y1)] + [
    (x, y0 + (y1 - y0) * i / n) for i in range(n + 1) for x in (x0, x1)]
q = np.array(t.TransformPoints(e))
json.dump([q[:, 0].min(), q[:, 1].min(), q[:, 0].max(), q[:, 1].max()], sys.stdout)`,
			map[string]any{"from": g.CRS.Code, "to": code, "box": boxOf(g)}, &box)
		return box
	}
	g.Transform[3] = -500000 // away from the pole
	for _, code := range []string{"EPSG:32623", "EPSG:3857", "EPSG:4326"} {
		crs, err := ParseCRS(code)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Extent(g, crs)
		if err != nil {
			t.Fatal(err)
		}
		want := pytestBox(code)
		for i := range got {
			// Between points an edge advances by much less than a pixel.
			if d := (got[i] - want[i]) / (want[2+i%2] - want[i%2]); d > 1e-5 || d < -1e-5 {
				t.Errorf("%s: %v, not %v", code, got, want)
				break
			}
		}
	}
	if _, err := Extent(g, raster.CRS{WKT: "nonsense"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
}

func boxOf(g raster.Grid) [4]float64 {
	a, b, c, d := g.Bounds()
	return [4]float64{a, b, c, d}
}

func TestGeoKeysEqualGDAL(t *testing.T) {
	needGDAL(t)
	for _, code := range []string{"EPSG:32631", "EPSG:4326", "EPSG:3857", "EPSG:3035", "EPSG:27700"} {
		path := filepath.Join(t.TempDir(), "a.tif")
		var wkt string
		pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys
from osgeo import gdal, osr
p = json.load(sys.stdin)
s = osr.SpatialReference(); s.SetFromUserInput(p[1])
f = gdal.GetDriverByName("GTiff").Create(p[0], 1, 1); f.SetSpatialRef(s); f = None
json.dump(s.ExportToWkt(), sys.stdout)`, []string{path, code}, &wkt)
		want := open(t, path).Info().Grid.CRS
		for _, text := range []string{code, strings.ToLower(code), wkt} {
			got, err := ParseCRS(text)
			if err != nil {
				t.Fatal(err)
			}
			if got.Code != code || got.Keys == nil ||
				!(raster.CRS{Keys: got.Keys}).Equal(raster.CRS{Keys: want.Keys}) || got.Keys.ASCII != want.Keys.ASCII {
				t.Errorf("%.40s: %+v, not %+v", text, got, want)
			}
		}
	}
	for _, text := range []string{"EPSG:99999", "nowhere", "/etc/passwd", "PROJCS[", ""} {
		if crs, err := ParseCRS(text); err == nil {
			t.Errorf("%q is %v", text, crs)
		} else {
			t.Log(err)
		}
	}
}
