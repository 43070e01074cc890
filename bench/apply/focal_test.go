package apply

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"leat/apply"
	"leat/bench/runner"
	"leat/ndarray"
	"leat/raster"
)

func TestMain(m *testing.M) {
	runner.ServeRole(Part)
	goleak.VerifyTestMain(m)
}

// writeReflectance writes size x size reflectances with four decimals.
func writeReflectance(t *testing.T, path string, width, height int) []float32 {
	t.Helper()
	all := make([]float32, width*height)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range all {
		all[i] = float32(r.IntN(12000)-1000) / 10000
	}
	_, err := apply.Run(t.Context(), apply.Job{
		Outputs:  map[string]apply.Output{"in": {Path: path, TileSize: 64, NoOverviews: true}},
		Controls: apply.Controls{Grid: &raster.Grid{Width: width, Height: height}},
		Func: func(_ context.Context, b *apply.Block) error {
			dst, w := apply.Out[float32](b, "in"), b.Window
			for y := range w.Height {
				copy(dst[y*w.Width:(y+1)*w.Width], all[(w.Row+y)*width+w.Col:])
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheFocalMeanIsThatOfThePixelsInTheRaster(t *testing.T) {
	const width, height = 203, 150
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.tif"), filepath.Join(dir, "out.tif")
	pixels := writeReflectance(t, in, width, height)
	want := make([]float32, len(pixels))
	for y := range height {
		for x := range width {
			sum, n := 0.0, 0.0
			for yy := max(y-focalRadius, 0); yy <= min(y+focalRadius, height-1); yy++ {
				for xx := max(x-focalRadius, 0); xx <= min(x+focalRadius, width-1); xx++ {
					sum += float64(pixels[yy*width+xx])
					n++
				}
			}
			want[y*width+x] = float32(sum / n)
		}
	}
	for _, window := range []int{0, 64, 128} {
		job := focalJob(in, out)
		o := job.Outputs["mean"]
		o.TileSize = 64
		job.Outputs["mean"] = o
		job.Controls.WindowWidth, job.Controls.WindowHeight = window, window
		if _, err := apply.Run(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		got, err := readBand(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range ndarray.Cast[float32](got) {
			if v != want[i] {
				t.Fatalf("window %d: pixel (%d, %d) is %v, not %v", window, i%width, i/width, v, want[i])
			}
		}
	}
}
