//go:build nogdal

package gdal

import (
	"errors"
	"testing"

	"leat/raster"
)

func TestCallsWithoutGDAL(t *testing.T) {
	_, open := Open("a.tif", nil)
	_, create := Create("a.img", &Spec{})
	_, drivers := Drivers()
	_, driver := DriverByName("HFA")
	_, version := Version()
	_, layers := VectorLayers("a.gpkg", nil)
	grid := raster.Grid{Width: 1, Height: 1, HasTransform: true, Transform: raster.Transform{0, 1, 0, 0, 0, -1}}
	_, vector := CheckVector(t.Context(), VectorRequest{Path: "a.gpkg"}, grid)
	_, burned := Rasterize(t.Context(), VectorRequest{Path: "a.gpkg"}, grid, "a.tif")
	_, cache := CacheBytes()
	features := (&FeatureFile{Driver: FormatGeoPackage}).Check(VectorRequest{Path: "a.gpkg"})
	for name, err := range map[string]error{"Open": open, "Create": create, "Drivers": drivers, "DriverByName": driver,
		"Version": version, "VectorLayers": layers, "CheckVector": vector, "CacheBytes": cache,
		"Rasterize": burned, "FeatureFile.Check": features, "Available": Available(), "SetCacheBytes": SetCacheBytes(1)} {
		if !errors.Is(err, ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		holds(t, err, "built without GDAL")
	}
}
