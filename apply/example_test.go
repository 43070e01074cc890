package apply_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"leat/apply"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// exampleRaster makes a directory with a raster of 4 x 3 pixels that count up from 1.
func exampleRaster() (dir, path string) {
	dir, err := os.MkdirTemp("", "leat-example")
	if err != nil {
		panic(err)
	}
	path = filepath.Join(dir, "a.tif")
	_, err = apply.Run(context.Background(), apply.Job{
		Outputs:  map[string]apply.Output{"a": {Path: path}},
		Controls: apply.Controls{Grid: &raster.Grid{Width: 4, Height: 3, Transform: raster.Identity}},
		Func: func(_ context.Context, b *apply.Block) error {
			for i, out := 0, apply.Out[uint8](b, "a"); i < len(out); i++ {
				out[i] = uint8(i + 1)
			}
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	return dir, path
}

func print(path string) {
	src, err := apply.Open(path)
	if err != nil {
		panic(err)
	}
	defer src.Close()
	g := src.Info().Grid
	a := ndarray.New(src.Info().Bands[0].Type, 1, g.Height, g.Width)
	if err := src.Read(context.Background(), []int{1}, g.Window(), a); err != nil {
		panic(err)
	}
	px := ndarray.Slice[uint8](a)
	for r := range g.Height {
		fmt.Println(px[r*g.Width : (r+1)*g.Width])
	}
}

// ExampleRun runs a function with a margin of one pixel: the mean of each pixel and its left and
// right neighbours.
func ExampleRun() {
	dir, in := exampleRaster()
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "mean.tif")
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs:   map[string]apply.Input{"a": apply.File(in)},
		Outputs:  map[string]apply.Output{"mean": {Path: out}},
		Controls: apply.Controls{Overlap: 1, Margin: block.MarginNearest},
		Func: func(_ context.Context, b *apply.Block) error {
			a, mean, w := apply.Band[uint8](b, "a", 1), apply.Out[uint8](b, "mean"), b.Columns()
			for r := 1; r < b.Rows()-1; r++ {
				for c := 1; c < w-1; c++ {
					mean[r*w+c] = uint8((int(a[r*w+c-1]) + int(a[r*w+c]) + int(a[r*w+c+1])) / 3)
				}
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	print(out)
	// Output:
	// [1 2 3 3]
	// [5 6 7 7]
	// [9 10 11 11]
}

// ExampleRun_expression runs an expression instead of a function.
func ExampleRun_expression() {
	dir, in := exampleRaster()
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "odd.tif")
	res, err := apply.Run(context.Background(), apply.Job{
		Inputs:      map[string]apply.Input{"a": apply.File(in)},
		Outputs:     map[string]apply.Output{"odd": {Path: out}},
		Expressions: map[string]string{"odd": "a % 2 == 1 ? a : 0"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	print(out)
	fmt.Println("largest:", res.Outputs[0].Bands[0].Max)
	// Output:
	// [1 0 3 0]
	// [5 0 7 0]
	// [9 0 11 0]
	// largest: 11
}

// ExampleJob_mergeWorkers counts the pixels of each value in a histogram for each worker, and adds
// the histograms up at the end. A histogram for each block would be larger than the block.
func ExampleJob_mergeWorkers() {
	type histogram [256]int64
	dir, in := exampleRaster()
	defer os.RemoveAll(dir)
	var total histogram
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs: map[string]apply.Input{"a": apply.File(in)},
		Setup:  func(context.Context, apply.WorkerInfo) (any, error) { return new(histogram), nil },
		Func: func(_ context.Context, b *apply.Block) error {
			h := b.State().(*histogram)
			for _, v := range apply.Band[uint8](b, "a", 1) {
				h[v]++
			}
			return nil
		},
		Close: func(state any) (any, error) { return *state.(*histogram), nil },
		MergeWorkers: apply.Fold(func(h histogram) error {
			for v, n := range h {
				total[v] += n
			}
			return nil
		}),
		WorkerValues: apply.Gob[histogram](), // for workers in other processes
	})
	fmt.Println(total[:14], err)
	// Output: [0 1 1 1 1 1 1 1 1 1 1 1 1 0] <nil>
}

// ExampleFold merges values from every block in block order, without an output.
func ExampleFold() {
	dir, in := exampleRaster()
	defer os.RemoveAll(dir)
	total := 0
	_, err := apply.Run(context.Background(), apply.Job{
		Inputs: map[string]apply.Input{"a": apply.File(in)},
		Func: func(_ context.Context, b *apply.Block) error {
			sum := 0
			for _, v := range apply.Band[uint8](b, "a", 1) {
				sum += int(v)
			}
			apply.Emit(b, sum)
			return nil
		},
		Merge: apply.Fold(func(sum int) error { total += sum; return nil }),
	})
	fmt.Println(total, err)
	// Output: 78 <nil>
}
