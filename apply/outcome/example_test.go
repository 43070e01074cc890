package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"leat/apply"
	"leat/apply/outcome"
	"leat/raster"
)

// Example runs a job whose function fails at a block, and resumes it. The errors are the same if
// worker processes compute the blocks.
func Example() {
	dir, err := os.MkdirTemp("", "leat-example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	fails := true
	job := apply.Job{
		Outputs: map[string]apply.Output{"a": {Path: filepath.Join(dir, "a.tif")}},
		Controls: apply.Controls{Grid: &raster.Grid{Width: 512, Height: 2048, Transform: raster.Identity},
			WindowWidth: 512, WindowHeight: 512},
		Concurrency: apply.Concurrency{Workers: 1},
		Func: func(_ context.Context, b *apply.Block) error {
			if fails && b.Number == 2 {
				return fmt.Errorf("a table is missing: %w", fs.ErrNotExist)
			}
			clear(apply.Out[uint8](b, "a"))
			return nil
		},
	}
	_, err = apply.Run(context.Background(), job)
	if block, ok := errors.AsType[*outcome.BlockError](err); ok {
		fmt.Printf("%s block %d, rows %d to %d: %v\n", block.Stage, block.Block, block.Window.Row,
			block.Window.Row+block.Window.Height-1, block.Err)
	}
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	if left, ok := errors.AsType[*outcome.IncompleteError](err); ok {
		fmt.Printf("%d of %d blocks are kept\n", left.Done, left.Total)
	}
	fails, job.Resume = false, true
	res, err := apply.Run(context.Background(), job)
	fmt.Println(res.Resumed, err)
	// Output:
	// computing block 2, rows 1024 to 1535: a table is missing: file does not exist
	// true
	// 2 of 4 blocks are kept
	// 2 <nil>
}
