package tiffwrite

import (
	"slices"
	"testing"

	"leat/raster"
)

func TestGeoKeysTrailingSpace(t *testing.T) {
	// As in rasterio's rgb1.tif: four numbers more than the announced keys.
	k := &raster.GeoKeys{Directory: []uint16{1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32618, 0, 0, 0, 0}}
	got, err := geoKeys(raster.Grid{Width: 1, Height: 1, HasTransform: true,
		Transform: raster.Transform{0, 1, 0, 0, 0, -1}, CRS: raster.CRS{Keys: k}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint16{1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32618}; !slices.Equal(got.Directory,
		want) {
		t.Errorf("%v, not %v", got.Directory, want)
	}
	// A directory that announces more keys than it has.
	k.Directory[3] = 9
	if got, err = geoKeys(raster.Grid{Width: 1, Height: 1, CRS: raster.CRS{Keys: k}}); err != nil ||
		len(got.Directory) != 20 || got.Directory[3] != 4 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestTooManyControlPointsAreRefused(t *testing.T) {
	points := &raster.GCPs{Points: make([]raster.GCP, MaxGCPs+1)}
	if err := CheckGeoreference(raster.Grid{GCPs: points}); err == nil {
		t.Error("they are not")
	}
	points.Points = points.Points[1:]
	if err := CheckGeoreference(raster.Grid{GCPs: points}); err != nil {
		t.Error(err)
	}
}
