package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"leat/apply"
	"leat/internal/expr"
	"leat/internal/geotiff"
	"leat/ndarray"
)

// runJob is what this program does when it is run as a process to be measured.
func runJob(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "focal":
		_, err := apply.Run(ctx, focalJob(args[1], args[2]))
		return err
	case len(args) == 4 && args[0] == "compute":
		workers, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return compute(ctx, workers, args[2], args[3])
	}
	return fmt.Errorf("no such job: %q", args)
}

// compute evaluates an expression of a, a float32 band, from memory to memory and prints how long
// that took.
func compute(ctx context.Context, workers int, text, path string) error {
	pixels, err := readBand(ctx, path)
	if err != nil {
		return err
	}
	parsed, err := expr.Parse(text)
	if err != nil {
		return err
	}
	p, err := expr.Compile(parsed, map[string]expr.Input{"a": {Files: []expr.File{{Bands: []expr.Band{{Type: ndarray.Float32}}}}}}, nil)
	if err != nil {
		return err
	}
	if p.Type() != ndarray.Float32 || len(p.Refs()) != 1 {
		return fmt.Errorf("the expression gives %v", p)
	}
	start := time.Now()
	out := make([]byte, len(pixels))
	// Pieces of a megabyte, as blocks come.
	const piece = 1 << 20
	next := make(chan int)
	errs := make([]error, workers)
	var g sync.WaitGroup
	for w := range workers {
		g.Go(func() {
			ev := p.NewEvaluator()
			for at := range next {
				end := min(at+piece, len(pixels))
				if err := ev.Eval([]expr.Operand{{Data: pixels[at:end]}}, [][]byte{out[at:end]}, (end-at)/4,
					nil); err != nil {
					errs[w] = err
				}
			}
		})
	}
	for at := 0; at < len(pixels); at += piece {
		next <- at
	}
	close(next)
	g.Wait()
	fmt.Printf("inner %.4f\n", time.Since(start).Seconds())
	return errors.Join(errs...)
}

// readBand reads the first band of a float32 raster.
func readBand(ctx context.Context, path string) ([]byte, error) {
	f, err := geotiff.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := f.Info().Grid
	a := ndarray.New(ndarray.Float32, 1, g.Height, g.Width)
	if err := f.Read(ctx, []int{1}, g.Window(), a); err != nil {
		return nil, err
	}
	return a.Raw(), nil
}

// profile runs the NDVI case in this process, several times, and writes a profile of it.
func (b *bench) profile(ctx context.Context, path string) error {
	b.findPeers(ctx)
	b.inputs.say = b.say
	red, nir, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range b.Runs + 1 {
		if i == 1 { // the first one warmed up
			if err := pprof.StartCPUProfile(f); err != nil {
				return err
			}
			defer pprof.StopCPUProfile()
		}
		res, err := apply.Run(ctx, apply.Job{
			Inputs: map[string]apply.Input{"red": apply.File(red), "nir": apply.File(nir)},
			Outputs: map[string]apply.Output{"ndvi": {Path: b.outFile("ndvi.tif"), NoOverviews: !withExtras,
				NoStatistics: !withExtras}},
			Expressions: map[string]string{"ndvi": ndviText},
		})
		if err != nil {
			return err
		}
		b.say("%.3f s", res.Wall.Seconds())
	}
	return nil
}
