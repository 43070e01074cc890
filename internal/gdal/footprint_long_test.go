package gdal

import (
	"testing"

	"leat/raster"
)

// tower maps an input of 10 x 10 pixels to a lattice of so many rows that footprint samples them:
// the input has ten columns in a few rows, and five in others.
type tower struct{ rows float64 }

func (m tower) toLattice(x, y []float64, ok []bool) error {
	for i := range x {
		if y[i] >= 1 {
			x[i] = 5 + x[i]/2
		}
		y[i], ok[i] = y[i]/10*m.rows, true
	}
	return nil
}

func (m tower) toInput(x, y []float64, ok []bool) error {
	for i := range x {
		if y[i] < 3 || y[i] > 7 {
			x[i] = (x[i] - 5) * 2
		}
		y[i], ok[i] = y[i]/m.rows*10, true
	}
	return nil
}

func TestSparselySampledLinesStay(t *testing.T) {
	for _, rows := range []float64{1000, 100 * walkPoints} {
		w, err := footprint(tower{rows}, raster.Size{Width: 10, Height: 10}, false,
			raster.Window{Width: 10, Height: 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.Col > 0 || w.Col+w.Width != 10 {
			t.Errorf("%v rows: %v", rows, w)
		}
	}
}
