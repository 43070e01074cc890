package raster_test

import (
	"fmt"

	"leat/raster"
)

// ExampleGrid turns a place on the map into a window of pixels, and the window into a grid.
func ExampleGrid() {
	g := raster.Grid{Width: 10980, Height: 10980, CRS: raster.CRS{Code: "EPSG:32631"},
		HasTransform: true, Transform: raster.Transform{600000, 10, 0, 5800020, 0, -10}}
	col, row, ok := g.Transform.Invert(650000, 5750000)
	if !ok {
		return
	}
	w := raster.Window{Col: int(col), Row: int(row), Width: 256, Height: 256}
	minX, minY, maxX, maxY := g.Sub(w).Bounds()
	fmt.Println(w, g.Window().Contains(w))
	fmt.Printf("%.0f %.0f %.0f %.0f\n", minX, minY, maxX, maxY)
	// Output:
	// 5000,5002 256x256 true
	// 650000 5747440 652560 5750000
}
