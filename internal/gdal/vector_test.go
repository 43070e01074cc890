package gdal

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

// burnCase is a request together with the equivalent arguments of gdal_rasterize.
type burnCase struct {
	Name string     `json:"name"`
	Args []string   `json:"args"` // of gdal_rasterize
	Path string     `json:"path"`
	Type string     `json:"type"` // GDAL's
	Null float64    `json:"null"`
	CRS  string     `json:"crs"`
	Six  [6]float64 `json:"six"`
	W    int        `json:"w"`
	H    int        `json:"h"`
	r    VectorRequest
}

const makeVectors = `
import json, sys, random
from osgeo import ogr, osr, gdal
gdal.UseExceptions(); ogr.UseExceptions(); osr.UseExceptions()
p = json.load(sys.stdin)
r = random.Random(5)
s = osr.SpatialReference(); s.ImportFromEPSG(32631); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
d = ogr.GetDriverByName("GPKG").CreateDataSource(p["gpkg"])
def put(name, kind, geometries):
    l = d.CreateLayer(name, s, kind)
    for f, t in (("class", ogr.OFTInteger), ("height", ogr.OFTReal), ("big", ogr.OFTInteger64), ("name", ogr.OFTString)): l.CreateField(ogr.FieldDefn(f, t))
    for i, g in enumerate(geometries):
        f = ogr.Feature(l.GetLayerDefn()); f.SetGeometry(ogr.CreateGeometryFromWkt(g))
        f["class"] = i % 7; f["height"] = i * 1.25 - 3; f["big"] = i * 10**10; f["name"] = "n%d" % i
        l.CreateFeature(f)
def pt(): return r.uniform(500000, 500600), r.uniform(5000000, 5000600)
polygons = []
for _ in range(30):
    x, y = pt(); k = r.uniform(5, 120)
    ring = ["%.3f %.3f" % (x + r.uniform(-k, k), y + r.uniform(-k, k)) for _ in range(r.randint(3, 7))]
    polygons.append("POLYGON ((%s, %s))" % (", ".join(ring), ring[0]))
polygons.append("POLYGON ((500100 5000100, 500400 5000100, 500400 5000400, 500100 5000400, 500100 5000100), (500200 5000200, 500300 5000200, 500300 5000300, 500200 5000300, 500200 5000200))")
polygons.append("MULTIPOLYGON (((500010 5000010, 500020 5000010, 500020 5000020, 500010 5000010)), ((500500 5000500, 500560 5000500, 500560 5000590, 500500 5000500)))")
put("fields", ogr.wkbUnknown, polygons)
put("roads", ogr.wkbLineString, ["LINESTRING (%s)" % ", ".join("%.3f %.3f" % pt() for _ in range(r.randint(2, 5))) for _ in range(20)])
put("wells", ogr.wkbPoint, ["POINT (%.3f %.3f)" % pt() for _ in range(50)])
d = None
gdal.VectorTranslate(p["json"], p["gpkg"], format="GeoJSON", layers=["fields"], dstSRS="EPSG:4326", reproject=True)
print("{}")
`

const burnTruth = `
import json, sys, base64, subprocess, os, tempfile
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
out = []
for c in json.load(sys.stdin):
    s = osr.SpatialReference(); s.SetFromUserInput(c["crs"]); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "a.tif")
        d = gdal.GetDriverByName("GTiff").Create(path, c["w"], c["h"], 1, gdal.GetDataTypeByName(c["type"]))
        d.SetGeoTransform(c["six"]); d.SetSpatialRef(s); d.GetRasterBand(1).Fill(c["null"]); d = None
        subprocess.run(["gdal_rasterize", "-q"] + c["args"] + [c["path"], path], check=True)
        a = gdal.Open(path).ReadAsArray()
        out.append(dict(pixels=base64.b64encode(a.tobytes()).decode(), burned=int((a != np.array(c["null"], a.dtype)).sum())))
json.dump(out, sys.stdout)
`

// vectors writes a GeoPackage with layers fields, roads and wells, and a GeoJSON file of the fields
// in longitude and latitude.
func vectors(t *testing.T) (gpkg, geojson string) {
	t.Helper()
	needGDAL(t)
	dir := t.TempDir()
	gpkg, geojson = filepath.Join(dir, "a.gpkg"), filepath.Join(dir, "a.geojson")
	pytest.Run(t, []string{"osgeo.gdal"}, makeVectors, map[string]string{"gpkg": gpkg, "json": geojson}, nil)
	return gpkg, geojson
}

func vectorGrid() raster.Grid {
	return raster.Grid{Width: 131, Height: 97, HasTransform: true,
		Transform: raster.Transform{499990, 5, 0, 5000610, 0, -6.5}, CRS: raster.CRS{Code: "EPSG:32631"}}
}

func TestBurnEqualsGdalRasterize(t *testing.T) {
	gpkg, geojson := vectors(t)
	g := vectorGrid()
	degrees := raster.Grid{Width: 90, Height: 110, HasTransform: true,
		Transform: raster.Transform{2.9995, 0.00009, 0, 45.1536, 0, -0.00005}, CRS: raster.CRS{Code: "EPSG:4326"}}
	v := func(f float64) *float64 { return &f }
	list := []burnCase{
		{Name: "polygons with one by default", Args: []string{"-l", "fields", "-burn", "1"},
			r: VectorRequest{Layer: "fields"}},
		{Name: "a layer by number", Args: []string{"-l", "roads", "-burn", "7"},
			r: VectorRequest{Layer: "1", Burn: v(7)}},
		{Name: "all touched", Args: []string{"-at", "-l", "fields", "-burn", "1"},
			r: VectorRequest{Layer: "fields", AllTouched: true}},
		{Name: "lines, all touched", Args: []string{"-at", "-l", "roads", "-burn", "1"},
			r: VectorRequest{Layer: "roads", AllTouched: true}},
		{Name: "points", Args: []string{"-l", "wells", "-burn", "200"}, r: VectorRequest{Layer: "wells", Burn: v(200)}},
		{Name: "an attribute", Args: []string{"-l", "fields", "-a", "class"}, Null: 99,
			r: VectorRequest{Layer: "fields", Attribute: "class", Null: v(99)}},
		{Name: "an attribute of numbers", Args: []string{"-l", "fields", "-a", "height"}, Type: "Float32", Null: -9999,
			r: VectorRequest{Layer: "fields", Attribute: "height", Null: v(-9999), Type: ndarray.Float32}},
		{Name: "another attribute of the same file", Args: []string{"-l", "fields", "-a", "big"}, Type: "Float64",
			r: VectorRequest{Layer: "fields", Attribute: "big", Type: ndarray.Float64}},
		{Name: "numbers cut to bytes", Args: []string{"-l", "fields", "-a", "height"},
			r: VectorRequest{Layer: "fields", Attribute: "height"}},
		{Name: "a condition", Args: []string{"-l", "fields", "-where", "class > 3", "-a", "class"},
			r: VectorRequest{Layer: "fields", Where: "class > 3", Attribute: "class"}},
		{Name: "a statement", Args: []string{"-sql", "SELECT * FROM fields WHERE height < 10", "-a", "height"},
			Type: "Int16", Null: -1, r: VectorRequest{SQL: "SELECT * FROM fields WHERE height < 10",
				Attribute: "height", Type: ndarray.Int16, Null: v(-1)}},
		{Name: "another system", Path: geojson, Args: []string{"-a", "class"}, Type: "UInt16", Null: 77,
			r: VectorRequest{Attribute: "class", Type: ndarray.Uint16, Null: v(77)}},
		{Name: "another system the other way", Args: []string{"-l", "fields", "-at", "-burn", "3"},
			r: VectorRequest{Layer: "fields", Burn: v(3), AllTouched: true}, CRS: "degrees"},
		{Name: "web mercator", Path: geojson, Args: []string{"-burn", "3"}, r: VectorRequest{Burn: v(3)},
			CRS: "EPSG:3857"},
	}
	if version >= since35 {
		list = append(list, burnCase{Name: "an attribute of large integers",
			Args: []string{"-l", "fields", "-a", "big"}, Type: "Int64",
			r: VectorRequest{Layer: "fields", Attribute: "big", Type: ndarray.Int64}})
	}
	if shp := "../../../shared/data/rasterio/box.shp"; exists(shp) {
		list = append(list, burnCase{Name: "box.shp", Path: shp, Args: []string{"-burn", "5"},
			r: VectorRequest{Burn: v(5)}, CRS: "box"})
	} else {
		t.Log("box.shp is not there; without it")
	}
	grids := make([]raster.Grid, len(list))
	for i := range list {
		k := &list[i]
		grids[i] = g
		switch {
		case k.CRS == "degrees":
			grids[i] = degrees
		case k.CRS == "box":
			grids[i] = boxGrid(t)
		case k.CRS == "EPSG:3857":
			grids[i] = raster.Grid{Width: 70, Height: 60, HasTransform: true,
				Transform: raster.Transform{333900, 15, 0, 5646200, 0, -17}, CRS: raster.CRS{Code: k.CRS}}
		}
		if k.Path == "" {
			k.Path = gpkg
		}
		if k.Type == "" {
			k.Type = "Byte"
		}
		k.r.Path, k.CRS, k.Six, k.W, k.H = k.Path, grids[i].CRS.Code, grids[i].Transform, grids[i].Width,
			grids[i].Height
	}
	var truth []struct {
		Pixels string
		Burned int
	}
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, burnTruth, list, &truth)
	keys := map[string]string{}
	for i, k := range list {
		t.Run(k.Name, func(t *testing.T) {
			got := burnt(t, k.r, grids[i])
			want, _ := base64.StdEncoding.DecodeString(truth[i].Pixels)
			if truth[i].Burned == 0 {
				t.Error("gdal_rasterize burned nothing")
			}
			differ(t, k.Name, got, want, nil, nil)
			// In strips of a few rows, as for a raster that exceeds GDAL's cache.
			before, err := CacheBytes()
			if err != nil {
				t.Fatal(err)
			}
			if err := SetCacheBytes(8 << 10); err != nil {
				t.Fatal(err)
			}
			got = burnt(t, k.r, grids[i])
			if err := SetCacheBytes(before); err != nil {
				t.Fatal(err)
			}
			differ(t, k.Name+", in strips", got, want, nil, nil)
			key := VectorKey(k.r)
			if other, ok := keys[key]; ok {
				t.Errorf("the same key as %q", other)
			}
			keys[key] = k.Name
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// boxGrid covers box.shp.
func boxGrid(t *testing.T) raster.Grid {
	t.Helper()
	return raster.Grid{Width: 100, Height: 80, HasTransform: true,
		Transform: raster.Transform{150000, 1300, 0, 2780000, 0, -1100}, CRS: raster.CRS{Code: "EPSG:32618"}}
}

// burnt burns a request and reads the result.
func burnt(t *testing.T, r VectorRequest, g raster.Grid) *ndarray.Array {
	t.Helper()
	path := filepath.Join(t.TempDir(), "burned.tif")
	if _, err := Rasterize(t.Context(), r, g, path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info := f.Info()
	if info.Grid.Transform != g.Transform || info.Grid.CRS.Code != g.CRS.Code || info.Bands[0].Nodata == nil {
		t.Errorf("the raster's grid is %+v, its nodata %v", info.Grid, info.Bands[0].Nodata)
	}
	a := ndarray.New(info.Bands[0].Type, 1, g.Height, g.Width)
	if err := f.Read(t.Context(), []int{1}, g.Window(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestBurnDoesNotDependOnMargin(t *testing.T) {
	gpkg, _ := vectors(t)
	g := vectorGrid()
	inner := raster.Window{Col: 20, Row: 30, Width: 50, Height: 40}
	for _, touched := range []bool{false, true} {
		r := VectorRequest{Path: gpkg, Layer: "fields", Attribute: "class", AllTouched: touched}
		whole, part := burnt(t, r, g), burnt(t, r, g.Sub(inner))
		for y := range inner.Height {
			a := part.Raw()[y*inner.Width:][:inner.Width]
			if b := whole.Raw()[(inner.Row+y)*g.Width+inner.Col:][:inner.Width]; string(a) != string(b) {
				t.Errorf("all touched %v: row %d is % d, not % d", touched, y, a, b)
			}
		}
	}
}

// GDAL damages rasters that are burned at once if its cache does not hold them all.
func TestBurnAtOnceWithinCache(t *testing.T) {
	const tile = burnedTile * burnedTile
	g := vectorGrid()
	wide := raster.Grid{Width: 3*burnedTile + 1, Height: burnedTile}
	huge := raster.Grid{Width: 1<<31 - 1, Height: 1<<31 - 1}
	for _, k := range []struct {
		grid  raster.Grid
		typ   ndarray.DType
		cache int64
		want  int64
	}{
		{g, ndarray.Uint8, 64 * tile, allShares / 32},
		{g, ndarray.Int32, 64 * tile, allShares / 8},
		{wide, ndarray.Uint8, 64 * tile, allShares / 8},
		{wide, ndarray.Float64, 64 * tile, allShares},
		{g, ndarray.Uint8, 60 << 10, allShares},
		{g, ndarray.Uint8, 0, allShares},
		{huge, ndarray.Float64, 1 << 40, allShares},
	} {
		if got := burningShare(k.grid, k.typ, k.cache); got != k.want {
			t.Errorf("%d x %d pixels of %v take %d of %d with a cache of %d bytes, not %d", k.grid.Width, k.grid.Height,
				k.typ, got, allShares, k.cache, k.want)
		}
	}
	gpkg, _ := vectors(t)
	if err := burning.Acquire(t.Context(), allShares); err != nil { // as another raster does
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	path := filepath.Join(t.TempDir(), "burned.tif")
	_, err := Rasterize(ctx, VectorRequest{Path: gpkg, Layer: "fields"}, g, path)
	if !errors.Is(err, context.DeadlineExceeded) || exists(path) {
		t.Errorf("it did not wait for the other raster: %v", err)
	}
	burning.Release(allShares)
	burnt(t, VectorRequest{Path: gpkg, Layer: "fields"}, g)
}

func TestVectorErrors(t *testing.T) {
	gpkg, geojson := vectors(t)
	g := vectorGrid()
	nan := 300.0
	for name, k := range map[string]struct {
		r    VectorRequest
		want []string
	}{
		"no such file": {VectorRequest{Path: "/nowhere.gpkg"}, []string{"/nowhere.gpkg"}},
		"a raster": {VectorRequest{Path: "testdata"},
			[]string{"testdata", "if it is a raster, make it an input of its own"}},
		"several layers": {VectorRequest{Path: gpkg}, []string{"3 layers", "fields, roads, wells"}},
		"no such layer": {VectorRequest{Path: gpkg, Layer: "rivers"},
			[]string{"no layer rivers", "fields, roads, wells"}},
		"no such number": {VectorRequest{Path: gpkg, Layer: "3"}, []string{"no layer 3"}},
		"no such attribute": {VectorRequest{Path: geojson, Attribute: "clss"},
			[]string{"no attribute clss", "class, height, big, name"}},
		"no such attribute of SQL": {VectorRequest{Path: gpkg, SQL: "SELECT geom, class FROM fields",
			Attribute: "height"}, []string{"no attribute height", "there are class"}},
		"an attribute of text": {VectorRequest{Path: geojson, Attribute: "name"},
			[]string{"name is not a number (String)"}},
		"a statement that is none": {VectorRequest{Path: gpkg, SQL: "SELEKT"}, []string{"SELEKT"}},
		"a condition that is none": {VectorRequest{Path: geojson, Where: "class >"}, []string{geojson}},
		"a statement and a layer": {VectorRequest{Path: gpkg, SQL: "SELECT * FROM fields", Layer: "fields"},
			[]string{"leave out the layer"}},
		"a value the type lacks": {VectorRequest{Path: geojson, Burn: &nan}, []string{"300", "uint8"}},
		"an attribute and a value": {VectorRequest{Path: geojson, Burn: &nan, Attribute: "class", Type: ndarray.Int16},
			[]string{"give one of them"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.tif")
			_, err := Rasterize(t.Context(), k.r, g, path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range k.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nlacks %q", err, w)
				}
			}
			if exists(path) {
				t.Error("a file is left")
			}
		})
	}
}

func TestVectorRequestKey(t *testing.T) {
	one, zero := 1.0, 0.0
	a := VectorRequest{Path: "a.gpkg", Layer: "x"}
	if b := (VectorRequest{Path: "a.gpkg", Layer: "x", Burn: &one, Null: &zero,
		Type: ndarray.Uint8}); VectorKey(a) != VectorKey(b) {
		t.Error("the defaults, said or not, have two keys")
	}
	seen := map[string]string{VectorKey(a): "a"}
	for name, change := range map[string]func(*VectorRequest){
		"path": func(r *VectorRequest) { r.Path = "b.gpkg" }, "layer": func(r *VectorRequest) { r.Layer = "y" },
		"statement": func(r *VectorRequest) { r.Layer, r.SQL = "", "x" },
		"condition": func(r *VectorRequest) { r.Where = "x" },
		"attribute": func(r *VectorRequest) { r.Attribute = "x" }, "value": func(r *VectorRequest) { r.Burn = &zero },
		"null": func(r *VectorRequest) { r.Null = &one }, "no nodata": func(r *VectorRequest) { r.NoNodata = true },
		"type":    func(r *VectorRequest) { r.Type = ndarray.Int16 },
		"touched": func(r *VectorRequest) { r.AllTouched = true }, "exact": func(r *VectorRequest) { r.Exact = true },
		"option": func(r *VectorRequest) { r.OpenOptions = []string{"A=B"} },
		"driver": func(r *VectorRequest) { r.Drivers = []string{"A=B"} },
	} {
		r := a
		change(&r)
		key := VectorKey(r)
		if other, ok := seen[key]; ok {
			t.Errorf("another %s has the key of %s", name, other)
		}
		seen[key] = fmt.Sprint("another ", name)
	}
}
