package resolve

import (
	"errors"
	"fmt"

	"leat/internal/gdal"
	"leat/raster"
)

// WGS84 is the CRS of lon and lat.
var WGS84 = raster.CRS{Code: "EPSG:4326"}

// IsWGS84 reports whether x and y of a CRS are lon and lat.
func IsWGS84(c raster.CRS) bool { return c.Code == WGS84.Code || c.Code == "OGC:CRS84" }

// checkGeodetic returns an error if the pixels of a grid have no lon, lat and pixel_area here.
func checkGeodetic(grid raster.Grid) error {
	switch {
	case !grid.HasTransform || grid.CRS.IsZero():
		return errors.New("lon, lat and pixel_area need a grid with a CRS and a transform")
	case IsWGS84(grid.CRS):
		return nil
	}
	if err := gdal.OnPlane(grid, WGS84, func(gdal.Plane) error { return nil }); err != nil {
		return fmt.Errorf("lon, lat and pixel_area of a grid in %v: %w", grid.CRS, err)
	}
	return nil
}
