package gdal

import (
	"bytes"
	"testing"

	"leat/ndarray"
)

// GDAL 3.6's Zarr driver claims that northings come before eastings, and gdalwarp follows it.
func TestZarrAxes(t *testing.T) {
	need(t, "GTiff", "Zarr")
	g := utm(50, 40)
	pixels := noise(ndarray.Uint8, 1, 40, 50)
	onto := g
	onto.Transform[0] += g.Transform[1] / 4
	var want []byte
	for _, driver := range []string{"GTiff", "Zarr"} {
		w, err := Warp(write(t, "a."+driver, &Spec{Driver: driver, Grid: g, Bands: 1, Type: ndarray.Uint8}, pixels),
			&WarpOptions{Grid: onto})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if col, row := w.Offset(); w.Info().Grid.Width != 50 || w.Info().Grid.Height != 40 || col != 0 || row != 0 {
			t.Errorf("%s: %d x %d pixels at column %d, row %d", driver, w.Info().Grid.Width, w.Info().Grid.Height, col,
				row)
			continue
		}
		got := readAll(t, w).Raw()
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: other pixels", driver)
		}
	}
}
