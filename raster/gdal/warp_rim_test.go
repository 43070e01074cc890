package gdal

import (
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// Of tiles whose edges are those of coarser pixels none has a pixel of a neighbour: a mean over both would have it twice.
func TestWhatIsAveragedEndsWhereTheInputDoes(t *testing.T) {
	need(t, "GTiff")
	in := raster.Grid{Width: 16, Height: 12, HasTransform: true, Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}, CRS: raster.CRS{Code: "EPSG:32631"}}
	pixels := ndarray.New(ndarray.Uint16, 1, 12, 16)
	for i := range ndarray.Slice[uint16](pixels) {
		ndarray.Slice[uint16](pixels)[i] = uint16(100 + i)
	}
	path := write(t, "tile.tif", &Spec{Driver: "GTiff", Grid: in, Bands: 1, Type: ndarray.Uint16}, pixels)
	grid := raster.Grid{Width: 20, Height: 20, HasTransform: true, Transform: raster.Transform{500000 - 60, 20, 0, 5000000 + 80, 0, -20}, CRS: in.CRS}
	for _, method := range []string{"average", "mode", "min", "max", "med", "rms", "q1", "q3"} {
		w, err := Warp(path, &WarpOptions{Grid: grid, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		g := w.Info().Grid
		if col, row := w.Offset(); col != 3 || row != 4 || g.Width != 8 || g.Height != 6 {
			t.Errorf("%s: %d x %d pixels from column %d, row %d", method, g.Width, g.Height, col, row)
		}
		mask := make([]byte, g.Width*g.Height)
		if w.Info().Mask == raster.MaskDataset {
			if err := w.ReadMask(t.Context(), g.Window(), mask); err != nil {
				t.Fatal(err)
			}
			for i, v := range mask {
				if v == 0 {
					t.Errorf("%s: pixel %d is invalid", method, i)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
