// Command workers computes the slope of a terrain in worker processes, and the highest slope of all
// blocks in this one:
//
//	workers DEM.tif SLOPE.tif [WORKERS]
//
// With worker/slurm, worker/pbs or worker/awsbatch in place of worker/subprocess the same program
// runs on a cluster.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"

	"leat/apply"
	"leat/block"
	"leat/worker/subprocess"
)

// settings go to every worker.
type settings struct{ Exaggeration float64 }

// functions are those that workers can be asked for: they are this program, started again.
var functions = apply.Functions{
	"slope": {Func: slope, Params: apply.Gob[settings](), Emits: apply.Gob[float64]()},
}

func main() {
	apply.Main(functions, nil) // in a worker this does not return
	log.SetFlags(0)
	if len(os.Args) < 3 || len(os.Args) > 4 {
		log.Fatal("usage: workers DEM.tif SLOPE.tif [WORKERS]")
	}
	workers := 2
	if len(os.Args) == 4 {
		var err error
		if workers, err = strconv.Atoi(os.Args[3]); err != nil || workers < 1 {
			log.Fatalf("%s is not a number of workers", os.Args[3])
		}
	}
	highest, err := run(context.Background(), os.Args[1], os.Args[2], workers)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the steepest pixel has a slope of %.1f degrees\n", highest)
}

// run writes the slope in degrees, and returns the highest.
func run(ctx context.Context, dem, out string, workers int) (highest float64, err error) {
	_, err = apply.Run(ctx, apply.Job{
		Inputs:    map[string]apply.Input{"dem": apply.File(dem)},
		Outputs:   map[string]apply.Output{"slope": {Path: out, Nodata: "-1"}},
		Functions: functions, Function: "slope", Params: settings{Exaggeration: 1},
		Controls:    apply.Controls{Overlap: 1, Margin: block.MarginNearest},
		Concurrency: apply.Concurrency{On: subprocess.New(nil), Workers: workers},
		// Called here, in the order of blocks, once for each value.
		Merge: apply.Fold(func(slope float64) error {
			highest = max(highest, slope)
			return nil
		}),
	})
	return highest, err
}

// slope computes a block; it runs in a worker.
func slope(_ context.Context, b *apply.Block) error {
	z, out, w := apply.As[float32](b, "dem"), apply.Out[float32](b, "slope"), b.Columns()
	valid := b.Valid("dem").Raw()
	dx, dy := b.PixelSize()
	scale := b.Params().(settings).Exaggeration
	highest := 0.0
	for r := 1; r < b.Rows()-1; r++ {
		for c := 1; c < w-1; c++ {
			i := r*w + c
			if valid[i]&valid[i-1]&valid[i+1]&valid[i-w]&valid[i+w] == 0 {
				out[i] = -1
				continue
			}
			x := float64(z[i+1]-z[i-1]) / (2 * dx)
			y := float64(z[i+w]-z[i-w]) / (2 * dy)
			degrees := math.Atan(scale*math.Hypot(x, y)) * 180 / math.Pi
			out[i] = float32(degrees)
			highest = max(highest, degrees)
		}
	}
	apply.Emit(b, highest)
	return nil
}
