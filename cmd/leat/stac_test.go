package main

import (
	"math"
	"testing"

	"leat/internal/gdal"
	"leat/internal/pytest"
	"leat/raster"
)

// TestFootprintsEqualPROJ compares boxes of items with OSR's TransformBounds, which knows poles and
// the antimeridian too.
func TestFootprintsEqualPROJ(t *testing.T) {
	if err := gdal.Available(); err != nil {
		t.Skip(err)
	}
	grids := map[string][4]float64{ // x and y of the upper left corner, sizes of a pixel
		"EPSG:32631": {300000, 4900020, 549, -549}, "EPSG:32601": {250000, 5600000, 500, -500},
		"EPSG:3413": {-1000000, 1500000, 10000, -10000}, "EPSG:3031": {0, 2000000, 10000, -10000},
		"EPSG:3995": {-2000000, -100000, 10000, -9000}, "EPSG:2193": {1000000, 6300000, 6000, -8000},
		"EPSG:3035": {2500000, 5500000, 25000, -20000}, "EPSG:4269": {150, 40, 0.1, -0.1},
		"EPSG:3857": {-20037508.34, 20037508.34, 200375.0834, -200375.0834}}
	type request struct {
		CRS string
		Box [4]float64 // min x, min y, max x, max y
	}
	var in []request
	var got [][4]float64
	for crs, v := range grids {
		g := raster.Grid{Width: 200, Height: 200, HasTransform: true, CRS: raster.CRS{Code: crs},
			Transform: raster.Transform{v[0], v[2], 0, v[1], 0, v[3]}}
		f, err := footprint(g)
		if err != nil {
			t.Fatal(err)
		}
		var r request
		r.CRS = crs
		r.Box[0], r.Box[1], r.Box[2], r.Box[3] = g.Bounds()
		in, got = append(in, r), append(got, f.BBox)
	}
	var want [][4]float64
	pytest.Run(t, []string{"osgeo.gdal", "osgeo.osr"}, `
import json, sys
from osgeo import osr
osr.UseExceptions()
def system(name):
    s = osr.SpatialReference()
    s.SetFromUserInput(name)
    s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return s
print(json.dumps([osr.CoordinateTransformation(system(r['CRS']), system('EPSG:4326')).TransformBounds(*r['Box'], 2001)
                  for r in json.load(sys.stdin)]))
`, in, &want)
	for i, r := range in {
		for k := range want[i] {
			if math.Abs(want[i][k]-got[i][k]) > 1e-5 {
				t.Errorf("%s: %v, PROJ gives %v", r.CRS, got[i], want[i])
				break
			}
		}
	}
}
