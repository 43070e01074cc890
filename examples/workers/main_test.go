package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"leat/apply"
	"leat/raster"
)

func TestMain(m *testing.M) {
	apply.Main(functions, nil)
	os.Exit(m.Run())
}

func TestSlopeOfPlane(t *testing.T) {
	dir := t.TempDir()
	grid := raster.Grid{Width: 900, Height: 700, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}}
	dem := filepath.Join(dir, "dem.tif")
	if _, err := apply.Run(t.Context(), apply.Job{
		Outputs:  map[string]apply.Output{"dem": {Path: dem}},
		Controls: apply.Controls{Grid: &grid},
		Func: func(_ context.Context, b *apply.Block) error {
			out := apply.Out[float32](b, "dem")
			for i := range out {
				out[i] = float32(b.Window.Col+i%b.Columns()) * 10 // rises as fast as it goes
			}
			return nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, workers := range []int{1, 3} {
		out := filepath.Join(dir, "slope.tif")
		highest, err := run(t.Context(), dem, out, workers)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(highest-45) > 1e-6 {
			t.Errorf("the highest slope is %v", highest)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("%d workers made other bytes", workers)
		}
	}
}
