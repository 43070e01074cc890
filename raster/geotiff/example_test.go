package geotiff_test

import (
	"context"
	"fmt"

	"leat/ndarray"
	"leat/raster"
	"leat/raster/geotiff"
)

// Example reads the pixels around a place on the map.
func Example() {
	f, err := geotiff.Open("testdata/ramp.tif")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	info := f.Info()
	col, row, _ := info.Grid.Transform.Invert(600025, 5800005)
	w := raster.Window{Col: int(col), Row: int(row), Width: 1, Height: 1}.Grow(1).Intersect(info.Grid.Window())
	dst := ndarray.New(info.Bands[0].Type, 1, w.Height, w.Width)
	if err := f.Read(context.Background(), []int{1}, w, dst); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Grid.CRS, len(info.Bands), dst.Type, w)
	fmt.Println(ndarray.Slice[uint8](dst))
	// Output:
	// EPSG:32631 1 uint8 1,0 3x3
	// [11 12 13 17 18 19 23 24 25]
}
