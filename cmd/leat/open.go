package main

import (
	"leat/raster"
	"leat/raster/geotiff"
)

// openRaster opens any raster that leat reads, by its content.
func openRaster(path string) (raster.Source, error) { return geotiff.Open(path) }
