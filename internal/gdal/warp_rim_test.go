package gdal

import (
	"bytes"
	"encoding/base64"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

// A tile with edges between coarser pixels has no pixel of its neighbour: a mean over both would
// count it twice.
func TestAverageAtInputEdge(t *testing.T) {
	need(t, "GTiff")
	in := raster.Grid{Width: 16, Height: 12, HasTransform: true,
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}, CRS: raster.CRS{Code: "EPSG:32631"}}
	pixels := ndarray.New(ndarray.Uint16, 1, 12, 16)
	for i := range ndarray.Slice[uint16](pixels) {
		ndarray.Slice[uint16](pixels)[i] = uint16(100 + i)
	}
	path := write(t, "tile.tif", &Spec{Driver: "GTiff", Grid: in, Bands: 1, Type: ndarray.Uint16}, pixels)
	grid := raster.Grid{Width: 20, Height: 20, HasTransform: true,
		Transform: raster.Transform{500000 - 60, 20, 0, 5000000 + 80, 0, -20}, CRS: in.CRS}
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

// gdalwarp yields a pixel outside the input only if its raster also has one that overlaps the
// input: the size of the reference must not matter.
func TestReferenceEdgeAtRotatedInput(t *testing.T) {
	need(t, "GTiff")
	in := raster.Grid{Width: 10, Height: 124, HasTransform: true, CRS: raster.CRS{Code: "EPSG:4326"},
		Transform: raster.Transform{167.3434824839437, 0.00017582161020282633, 5.27464830608479e-05, 31.710910440329794,
			-2.8131457632452216e-05, -0.00014065728816226107}}
	pixels := ndarray.New(ndarray.Uint16, 1, in.Height, in.Width)
	for i := range ndarray.Slice[uint16](pixels) {
		ndarray.Slice[uint16](pixels)[i] = uint16(100 + i)
	}
	path := write(t, "turned.tif", &Spec{Driver: "GTiff", Grid: in, Bands: 1, Type: ndarray.Uint16}, pixels)
	k := warpCase{Path: path, CRS: "EPSG:3857",
		Six:   [6]float64{1.8627091803340454e+07, 19.516198732513722, 0, 3.724458143128361e+06, 0, -19.516198732513722},
		Width: 92, Height: 56, Method: "average", Valid: "none", XScale: "1", YScale: "1", Area: true}
	w, err := Warp(path, &WarpOptions{Grid: k.grid(), Method: k.Method})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	got, valid := onReference(t, w, k.grid())
	if n := bytes.Count(valid, []byte{1}); n != 1 || valid[91] != 1 {
		t.Errorf("%d pixels are valid, not the last of the first row alone", n)
	}
	var truth []struct{ Pixels, Valid string }
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, warpTruth, []warpCase{k}, &truth)
	want, _ := base64.StdEncoding.DecodeString(truth[0].Pixels)
	wantValid, _ := base64.StdEncoding.DecodeString(truth[0].Valid)
	differ(t, k.String(), got, want, valid, wantValid)
}
