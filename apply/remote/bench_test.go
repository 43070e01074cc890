package remote

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"leat/apply"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// hills writes a raster that compresses about as a band of a satellite does.
func hills(tb testing.TB, path string, side int, seed uint64) {
	tb.Helper()
	grid := raster.Grid{Width: side, Height: side, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"}, Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}}
	_, err := apply.Run(context.Background(), apply.Job{Outputs: map[string]apply.Output{"out": {Path: path, COG: true, NoStatistics: true}}, Controls: apply.Controls{Grid: &grid},
		Func: func(_ context.Context, b *apply.Block) error {
			a := b.NewOut(ndarray.Uint16, 1)
			px := ndarray.Slice[uint16](a)
			r := rand.New(rand.NewPCG(seed, uint64(b.Number)))
			for i := range px {
				x, y := float64(i%b.Columns()+b.Window.Col), float64(i/b.Columns()+b.Window.Row)
				px[i] = uint16(2000 + 800*math.Sin(x/97+float64(seed))*math.Cos(y/61) + float64(r.IntN(200)))
			}
			b.SetOut("out", a)
			return nil
		}})
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkTwoCOGsBehindAServerOf20ms compares NDVI on two files of 5490 x 5490 with the same on local files: staged first (a new stage each time, and
// one that has them), and read in pieces.
func BenchmarkTwoCOGsBehindAServerOf20ms(b *testing.B) {
	const side = 5490
	s := newShop(b)
	hills(b, s.path("red.tif"), side, 1)
	hills(b, s.path("nir.tif"), side, 2)
	s.delay = 20 * time.Millisecond
	half := &block.Window{Col: 1500, Row: 1500, Width: 2600, Height: 2600}
	warm := filepath.Join(b.TempDir(), "warm")
	for _, c := range []struct {
		name   string
		far    bool
		stage  string // "new", "warm" or none
		window *block.Window
	}{{"local", false, "", nil}, {"stage/new", true, "new", nil}, {"stage/warm", true, "warm", nil}, {"pieces", true, "", nil},
		{"window/local", false, "", half}, {"window/pieces", true, "", half}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := b.TempDir()
				red, nir := s.path("red.tif"), s.path("nir.tif")
				var stores *Stores
				if c.far {
					red, nir = s.url("red.tif"), s.url("nir.tif")
					stores = New(&Options{NoStage: c.stage == "", StageDir: map[string]string{"new": filepath.Join(dir, "stage"), "warm": warm}[c.stage]})
				}
				b.StartTimer()
				job := apply.Job{Inputs: map[string]apply.Input{"red": apply.File(red), "nir": apply.File(nir)},
					Outputs:     map[string]apply.Output{"out": {Path: filepath.Join(dir, "out.tif"), NoOverviews: true, NoStatistics: true}},
					Expressions: map[string]string{"out": "(nir - red) / (nir + red)"}, Controls: apply.Controls{Window: c.window}}
				if c.far {
					job.Open = stores.Open
				}
				if _, err := apply.Run(context.Background(), job); err != nil {
					b.Fatal(err)
				}
				if c.far {
					if err := stores.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
