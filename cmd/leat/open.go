package main

import (
	"leat/apply"
	"leat/raster"
)

// openRaster opens any raster that leat reads, by its content.
func openRaster(path string) (raster.Source, error) { return apply.Open(path) }
