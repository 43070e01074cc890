package gdal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/internal/scalarvalue"
	"leat/ndarray"
	"leat/raster"
)

// exactCase is a raster of 6 x 4 pixels that count from 0, except for one.
type exactCase struct {
	Path   string `json:"path"`
	Type   string `json:"type"`
	Value  string `json:"value"` // of the pixel at column 2, row 1
	Valid  string `json:"valid"` // none; nodata: the value is nodata; mask, alpha: they exclude the pixel
	method string
	holds  bool     // warping succeeds
	want   []string // words of the error
}

const makeExact = `
import json, sys
import numpy as np
from osgeo import gdal, osr
gdal.UseExceptions()
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
s = osr.SpatialReference(); s.ImportFromEPSG(32631)
for c in json.load(sys.stdin):
    alpha = c["valid"] == "alpha"
    d = gdal.GetDriverByName("GTiff").Create(c["path"], 6, 4, 1 + alpha, gdal.GetDataTypeByName(c["type"]), ["ALPHA=YES"] if alpha else [])
    d.SetGeoTransform([500000, 10, 0, 5000000, 0, -10]); d.SetSpatialRef(s)
    t = {"Int64": np.int64, "UInt64": np.uint64, "Int32": np.int32, "UInt32": np.uint32, "Int16": np.int16, "Float64": np.float64, "Float32": np.float32}[c["type"]]
    a = np.arange(24).astype(t).reshape(4, 6)
    v = float(c["value"]) if "Float" in c["type"] else int(c["value"])
    a[1, 2] = v
    d.GetRasterBand(1).WriteArray(a)
    if c["valid"] == "nodata":
        d.GetRasterBand(1).SetNoDataValue(v)
    if c["valid"] == "mask":
        d.CreateMaskBand(gdal.GMF_PER_DATASET)
        d.GetRasterBand(1).GetMaskBand().WriteArray((a != v).astype(np.uint8) * 255)
    if alpha:
        d.GetRasterBand(2).WriteArray((a != v).astype(t) * 1000)
        d.GetRasterBand(2).SetColorInterpretation(gdal.GCI_AlphaBand)
    d = None
print("{}")
`

func exactCases(dir string) []exactCase {
	var list []exactCase
	add := func(typ, value, valid, method string, want ...string) {
		list = append(list, exactCase{Path: filepath.Join(dir, fmt.Sprint(len(list))+".tif"), Type: typ, Value: value,
			Valid: valid, method: method, holds: want == nil, want: want})
	}
	const at = "band 1 at column 2, row 1 is "
	for _, method := range []string{"near", "mode", "min", "median", "average", "bilinear"} {
		for _, v := range []string{"9007199254740993", "-9007199254740993", "9223372036854775807",
			"-9223372036854775808"} {
			add("Int64", v, "none", method, at+v, "of int64 by "+method, "gdal_translate -ot Float")
			add("Int64", v, "nodata", method)
		}
		add("UInt64", "18446744073709551615", "none", method, at+"18446744073709551615", "of uint64 by "+method)
		add("UInt64", "18446744073709551615", "nodata", method)
		add("Int64", "9007199254740993", "mask", method)
		add("Int64", "9007199254740993", "alpha", method)
		if method != "mode" {
			for _, v := range []string{"9007199254740992", "-9007199254740992"} {
				add("Int64", v, "none", method)
			}
			add("Int32", "2147483647", "none", method)
			add("Float64", "0.1", "none", method)
		}
		if method != "average" && method != "bilinear" {
			add("Float32", "0.1", "none", method)
		}
	}
	for _, typ := range []string{"Int32", "UInt32", "Int64", "UInt64"} {
		add(typ, "16777217", "none", "mode", at+"16777217", "by mode in float32", "2^24", "by near")
		add(typ, "16777217", "nodata", "mode")
		add(typ, "16777216", "none", "mode")
	}
	add("Float64", "0.1", "none", "mode", at+"0.1", "no such value", "-ot Float32")
	add("Float64", "0.1", "nodata", "mode")
	add("Float64", "0.5", "none", "mode")
	add("Float64", "nan", "none", "mode")
	add("Int16", "-1", "none", "mode", at+"-1", "as if pixels of -1 were invalid", "-ot Int32")
	add("Int16", "-1", "nodata", "mode")
	add("Int16", "-2", "none", "mode")
	add("Int32", "-1", "none", "mode")
	add("Int16", "-1", "none", "near")
	return list
}

func TestUnsafeNodataIsRefused(t *testing.T) {
	need(t, "GTiff")
	list := exactCases(t.TempDir())
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, makeExact, list, nil)
	grid := raster.Grid{Width: 7, Height: 5, HasTransform: true,
		Transform: raster.Transform{499998, 10, 0, 5000002, 0, -10}, CRS: raster.CRS{Code: "EPSG:32631"}}
	for _, k := range list {
		t.Run(strings.Join([]string{k.Type, k.Value, k.Valid, k.method}, " "), func(t *testing.T) {
			w, err := Warp(k.Path, &WarpOptions{Grid: grid, Method: k.method})
			if err != nil && strings.Contains(err.Error(), "times as wide as a pixel of that grid") {
				t.Fatal("a case of no use:", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			info := w.Info()
			if later := w.losses[0] == lossless; later && !k.holds {
				t.Skip("this GDAL does it exactly")
			}
			if k.Valid == "nodata" {
				if n := info.Bands[0].Nodata; n == nil || n.String() != k.Value {
					t.Errorf("nodata is %v", n)
				}
			}
			a := ndarray.New(info.Bands[0].Type, 1, info.Grid.Height, info.Grid.Width)
			err = w.Read(t.Context(), []int{1}, info.Grid.Window(), a)
			if !k.holds {
				if err == nil {
					t.Fatalf("pixels %v", a)
				}
				for _, text := range append(k.want, k.Path, "use a grid that fits the file's pixels") {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%v does not say %q", err, text)
					}
				}
				if !errors.Is(err, raster.ErrUnsupported) {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// With near, pixels keep their values but move.
			if k.method == "near" {
				want, err := ndarray.ParseScalar(k.Value, a.Type)
				if err != nil {
					t.Fatal(err)
				}
				size := a.Type.Size()
				col, row := w.Offset()
				pixel := make([]byte, size)
				scalarvalue.Put(want, pixel)
				if i := (1-row)*info.Grid.Width + 2 - col; k.Valid != "mask" && k.Valid != "alpha" &&
					string(a.Raw()[i*size:][:size]) != string(pixel) {
					t.Errorf("the pixel is % x, not % x", a.Raw()[i*size:][:size], pixel)
				}
			}
		})
	}
}

// Pixels that GDAL would change are an error only where they matter: in the bands and near the
// windows that are read.
func TestUnsafeNodataOutsideFootprint(t *testing.T) {
	need(t, "GTiff")
	in := raster.Grid{Width: 100, Height: 80, HasTransform: true,
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}, CRS: raster.CRS{Code: "EPSG:32631"}}
	pixels := ndarray.New(ndarray.Int64, 2, in.Height, in.Width)
	ndarray.Slice[int64](pixels)[100*80+70*100+90] = 1<<53 + 1
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: in, Bands: 2, Type: ndarray.Int64}, pixels)
	grid := in
	grid.Transform[0] += 3
	for _, method := range []string{"near", "bilinear"} {
		w, err := Warp(path, &WarpOptions{Grid: grid, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if w.losses[0] == lossless {
			t.Skip("this GDAL does it exactly")
		}
		all := w.Info().Grid.Window()
		for _, k := range []struct {
			bands []int
			at    raster.Window
			fails bool
		}{{[]int{1}, all, false}, {[]int{1, 2}, all, true}, {[]int{2}, raster.Window{Width: 60, Height: 50}, false},
			{[]int{2}, raster.Window{Col: 90, Row: 70, Width: 1, Height: 1}, true}} {
			err := w.Read(t.Context(), k.bands, k.at, ndarray.New(ndarray.Int64, len(k.bands), k.at.Height, k.at.Width))
			if k.fails != (err != nil) || err != nil && !strings.Contains(err.Error(),
				"band 2 at column 90, row 70 is 9007199254740993") {
				t.Errorf("%s, bands %v, window %v: %v", method, k.bands, k.at, err)
			}
		}
	}
}

// A pixel of -1 that GDAL treats as missing would become invalid.
func TestMaskKeepsNodataValues(t *testing.T) {
	need(t, "GTiff")
	in := raster.Grid{Width: 8, Height: 8, HasTransform: true,
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}, CRS: raster.CRS{Code: "EPSG:32631"}}
	pixels := ndarray.New(ndarray.Int16, 1, in.Height, in.Width)
	for i := range ndarray.Slice[int16](pixels) {
		ndarray.Slice[int16](pixels)[i] = -1
	}
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: in, Bands: 1, Type: ndarray.Int16}, pixels)
	grid := in
	grid.Transform[0] += 3
	w, err := Warp(path, &WarpOptions{Grid: grid, Method: "mode"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	all := w.Info().Grid.Window()
	mask := make([]byte, all.Pixels())
	if err := w.ReadMask(t.Context(), all, mask); err == nil && w.losses[0] != lossless {
		t.Errorf("the mask is %v", mask)
	} else if err == nil && !slices.Contains(mask, 255) {
		t.Error("all pixels are left out")
	}
}
