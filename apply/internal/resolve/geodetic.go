package resolve

import (
	"errors"
	"fmt"

	"leat/internal/gdal"
	"leat/raster"
)

// checkGeodetic returns an error if the pixels of a grid have no lon, lat and pixel_area here.
func checkGeodetic(grid raster.Grid) error {
	switch {
	case !grid.HasTransform || grid.CRS.IsZero():
		return errors.New("lon, lat and pixel_area need a grid with a CRS and a transform")
	case gdal.IsWGS84(grid.CRS):
		return nil
	}
	if err := gdal.OnPlane(grid, gdal.WGS84, func(gdal.Plane) error { return nil }); err != nil {
		return fmt.Errorf("lon, lat and pixel_area of a grid in %v: %w", grid.CRS, err)
	}
	return nil
}
