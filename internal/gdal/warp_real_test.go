package gdal

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

const shared = "../../../shared/data"

// commandTruth runs the command itself, with its own chunks.
const commandTruth = `
import json, sys, base64, subprocess, os, tempfile
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "a.tif")
        r = gdal.Open(c["reference"]); six = r.GetGeoTransform()
        srs = os.path.join(t, "srs.wkt"); open(srs, "w").write(r.GetSpatialRef().ExportToWkt(["FORMAT=WKT2_2019"]))
        box = [six[0], six[3] + r.RasterYSize * six[5], six[0] + r.RasterXSize * six[1], six[3]]
        subprocess.run(["gdalwarp", "-q", "-et", "0", "-r", c["method"], "-wo", "XSCALE=" + c["xscale"], "-wo", "YSCALE=" + c["yscale"], "-t_srs", srs,
            "-te"] + ["%.17g" % v for v in box] + ["-ts", str(r.RasterXSize), str(r.RasterYSize)] + c["more"] + [c["path"], path], check=True)
        out.append(base64.b64encode(np.ascontiguousarray(gdal.Open(path).ReadAsArray()).tobytes()).decode())
json.dump(out, sys.stdout)
`

type realCase struct {
	Path      string   `json:"path"`
	Reference string   `json:"reference"`
	Method    string   `json:"method"`
	XScale    string   `json:"xscale"`
	YScale    string   `json:"yscale"`
	More      []string `json:"more"`
	overviews bool
	nodata    []string
}

func TestWarpEqualsGdalwarpRealData(t *testing.T) {
	needGDAL(t)
	rasterio, landsat := filepath.Join(shared, "rasterio"), filepath.Join(shared, "landsat8")
	at := filepath.Join
	if !exists(rasterio) {
		t.Skip("the real rasters are not at " + shared)
	}
	list := []realCase{
		{Path: at(rasterio, "rgb1_fake_nir_epsg3857.tif"), Reference: at(rasterio, "rgb1.tif"), Method: "bilinear"},
		{Path: at(rasterio, "rgb1_fake_nir_epsg3857.tif"), Reference: at(rasterio, "rgb1.tif"), Method: "near"},
		{Path: at(rasterio, "rgb1_fake_nir_epsg3857.tif"), Reference: at(rasterio, "rgb1.tif"), Method: "cubic"},
		{Path: at(rasterio, "rgb2.tif"), Reference: at(rasterio, "rgb1.tif"), Method: "near"},
		{Path: at(landsat, "l8_B8.tif"), Reference: at(landsat, "l8_B4.tif"), Method: "average"},
		{Path: at(landsat, "l8_B8.tif"), Reference: at(landsat, "l8_B4.tif"), Method: "lanczos"},
		{Path: at(landsat, "l8_B4.tif"), Reference: at(landsat, "l8_B8.tif"), Method: "cubicspline"},
		{Path: at(landsat, "l8_BQA.tif"), Reference: at(landsat, "l8_B8.tif"), Method: "near"},
		{Path: at(rasterio, "RGB.byte.tif"), Reference: at(rasterio, "rgb1_fake_nir_epsg3857.tif"), Method: "cubic"},
		{Path: at(rasterio, "RGBA.byte.tif"), Reference: at(rasterio, "RGB.byte.tif"), Method: "bilinear"},
		// Along the limb, 21 points on each edge of a chunk are too few for the command to find how
		// much of the source it needs.
		{Path: at(rasterio, "world.byte.tif"), Reference: at(rasterio, "goes.tif"), Method: "near",
			More: []string{"-wo", "SOURCE_EXTRA=3000"}},
		{Path: at(rasterio, "float_raster_with_nodata.tif"), Reference: at(rasterio, "float_raster_with_nodata.tif"),
			Method: "lanczos"},
		{Path: at(rasterio, "world.byte.tif"), Reference: at(rasterio, "rgb1.tif"), Method: "cubic"},
		{Path: at(landsat, "l8_B8.tif"), Reference: at(landsat, "l8_B4.tif"), Method: "average", nodata: []string{"0"},
			More: []string{"-srcnodata", "0"}},
		{Path: at(rasterio, "red.tif"), Reference: at(rasterio, "red.tif"), Method: "average"},
	}
	grids := make([]raster.Grid, len(list))
	var warped []*Warped
	for i := range list {
		k := &list[i]
		f, err := Open(k.Reference, nil)
		if err != nil {
			t.Fatal(err)
		}
		grids[i] = f.Info().Grid
		f.Close()
		w, err := Warp(k.Path, &WarpOptions{Grid: grids[i], Method: k.Method, Overviews: k.overviews, Nodata: k.nodata})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		x, y := w.Scales()
		k.XScale, k.YScale = strconv.FormatFloat(x, 'g', -1, 64), strconv.FormatFloat(y, 'g', -1, 64)
		if !k.overviews {
			k.More = append(k.More, "-ovr", "NONE")
		}
		warped = append(warped, w)
	}
	var truth []string
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, commandTruth, list, &truth)
	for i, k := range list {
		name := filepath.Base(k.Path) + " onto " + filepath.Base(k.Reference) + " by " + k.Method
		t.Run(name, func(t *testing.T) {
			got, valid := onReference(t, warped[i], grids[i])
			want, _ := base64.StdEncoding.DecodeString(truth[i])
			if bytes.Count(valid, []byte{1}) == 0 && filepath.Base(k.Path) != "rgb2.tif" { // rgb2 does not overlap rgb1
				t.Error("no valid pixel: nothing is compared")
			}
			differ(t, name, got, want, nil, nil)
		})
	}
}

func TestUnknownMethod(t *testing.T) {
	needGDAL(t)
	err := CheckMethod("bicubic")
	if err == nil || !strings.Contains(err.Error(), "cubicspline") {
		t.Error(err)
	}
	for _, m := range append(Methods(), "", "Near", "med") {
		if err := CheckMethod(m); err != nil && version >= 3_03_00_00 {
			t.Error(err)
		}
	}
}

func TestEqualCRSUnderOtherNames(t *testing.T) {
	needGDAL(t)
	text := func(code string) string {
		s, err := referenceText(raster.CRS{Code: code})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	utm := raster.CRS{Code: "EPSG:32631"}
	for name, k := range map[string]struct {
		other raster.CRS
		same  bool
	}{
		"its text":          {raster.CRS{WKT: text("EPSG:32631")}, true},
		"another zone":      {raster.CRS{WKT: text("EPSG:32632")}, false},
		"another code":      {raster.CRS{Code: "EPSG:32632"}, false},
		"none":              {raster.CRS{}, false},
		"what is not a CRS": {raster.CRS{WKT: "PROJCS[nonsense"}, false},
	} {
		if got := SameCRS(utm, k.other); got != k.same {
			t.Errorf("%s: %v", name, got)
		}
		if got := SameCRS(k.other, utm); got != k.same {
			t.Errorf("%s, the other way: %v", name, got)
		}
	}
	old := `GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]]`
	if !SameCRS(raster.CRS{Code: "EPSG:4326"}, raster.CRS{WKT: old}) {
		t.Error("WGS 84 with the axes in another order is another system")
	}
}

func TestWarpErrors(t *testing.T) {
	needGDAL(t)
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys
from osgeo import gdal, osr
d = json.load(sys.stdin)
def make(name, epsg, six=(0, 1, 0, 50, 0, -1), bands=1):
    f = gdal.GetDriverByName("GTiff").Create(d + "/" + name, 10, 10, bands, gdal.GDT_Byte)
    if six: f.SetGeoTransform(six)
    if epsg: s = osr.SpatialReference(); s.ImportFromEPSG(epsg); f.SetSpatialRef(s)
make("nocrs.tif", 0); make("nowhere.tif", 0, None); make("good.tif", 4326, bands=2)
make("pole.tif", 3031, (-500, 100, 0, 500, 0, -100))
print("{}")`, dir, nil)
	grid := raster.Grid{Width: 10, Height: 10, HasTransform: true, Transform: raster.Transform{0, 1, 0, 50, 0, -1},
		CRS: raster.CRS{Code: "EPSG:4326"}}
	none := grid
	none.CRS = raster.CRS{}
	plain := raster.Grid{Width: 10, Height: 10, Transform: raster.Identity}
	distant := grid
	distant.Transform[1], distant.Transform[5], distant.Transform[0] = 1e-7, -1e-7, 100
	for name, k := range map[string]struct {
		path string
		o    *WarpOptions
		want string
	}{
		"no CRS":                 {"nocrs.tif", &WarpOptions{Grid: grid}, "names no coordinate reference system"},
		"no CRS of the grid":     {"good.tif", &WarpOptions{Grid: none}, "the reference grid names no"},
		"no place":               {"nowhere.tif", &WarpOptions{Grid: grid}, "affine transformation"},
		"no place of the grid":   {"good.tif", &WarpOptions{Grid: plain}, "not georeferenced"},
		"another end":            {"good.tif", &WarpOptions{Grid: distant}, "more than 500 million pixels away"},
		"a method":               {"good.tif", &WarpOptions{Grid: grid, Method: "best"}, "best"},
		"nodata of another type": {"good.tif", &WarpOptions{Grid: grid, Nodata: []string{"-5"}}, "-5"},
		"three nodata values": {"good.tif", &WarpOptions{Grid: grid, Nodata: []string{"1", "2", "3"}},
			"3 nodata values for 2 bands"},
	} {
		w, err := Warp(filepath.Join(dir, k.path), k.o)
		if err == nil {
			w.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), k.want) || !strings.Contains(err.Error(), k.path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolarFootprintOnWebMercator(t *testing.T) {
	needGDAL(t)
	path := filepath.Join(t.TempDir(), "pole.tif")
	pytest.Run(t, []string{"osgeo.gdal"}, `
import json, sys
from osgeo import gdal, osr
f = gdal.GetDriverByName("GTiff").Create(json.load(sys.stdin), 100, 100, 1, gdal.GDT_Byte)
f.SetGeoTransform((-500000, 10000, 0, 500000, 0, -10000))
s = osr.SpatialReference(); s.ImportFromEPSG(3031); f.SetSpatialRef(s)
f.GetRasterBand(1).Fill(7)
print("{}")`, path, nil)
	for code, six := range map[string]raster.Transform{"EPSG:3857": {0, 10000, 0, 0, 0, -10000},
		"EPSG:4326": {0, 0.1, 0, 0, 0, -0.1}} {
		w, err := Warp(path, &WarpOptions{Grid: raster.Grid{Width: 10, Height: 10, HasTransform: true, Transform: six,
			CRS: raster.CRS{Code: code}}})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		minX, minY, maxX, _ := w.Info().Grid.Bounds()
		if code == "EPSG:4326" && (minX > -180 || maxX < 180 || minY > -89.99) {
			t.Errorf("the raster reaches from %v to %v, down to %v degrees", minX, maxX, minY)
		}
		if code == "EPSG:3857" && (minX > -20037508 || maxX < 20037508 || minY > -3e7) {
			t.Errorf("the raster reaches from %v to %v, down to %v m", minX, maxX, minY)
		}
	}
}

func BenchmarkWarpedRead(b *testing.B) {
	needGDAL(b)
	path := filepath.Join(shared, "landsat8", "l8_B8.tif")
	if !exists(path) {
		b.Skip("the real rasters are not at " + shared)
	}
	grid := raster.Grid{Width: 1200, Height: 1200, HasTransform: true, Transform: raster.Transform{0, 20, 0, 0, 0, -20},
		CRS: raster.CRS{Code: "EPSG:3857"}}
	for _, method := range []string{"near", "bilinear", "cubic", "average"} {
		b.Run(method, func(b *testing.B) {
			w, err := Warp(path, &WarpOptions{Grid: grid, Method: method})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			at := w.Info().Grid.Window()
			at.Width, at.Height = min(at.Width, 512), min(at.Height, 512)
			a := ndarray.New(w.Info().Bands[0].Type, 1, at.Height, at.Width)
			b.SetBytes(at.Pixels() * int64(a.Type.Size()))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Read(b.Context(), []int{1}, at, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
