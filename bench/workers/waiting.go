package workers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"leat/apply"
	"leat/bench/measured"
	"leat/internal/backoff"
	"leat/ndarray"
	"leat/raster"
	"leat/worker/subprocess"
)

// Times that a read takes, by the number of inputs, and that the function takes for a block.
const (
	readOfMany = 50 * time.Millisecond
	readOfOne  = 20 * time.Millisecond
	functionOf = 20 * time.Millisecond
)

// waitingStores open local rasters whose reads wait, as those of a service do.
type waitingStores struct{ read time.Duration }

func (s waitingStores) Open(_ context.Context, path string) (raster.Source, error) {
	src, err := apply.Open(path)
	if err != nil {
		return nil, err
	}
	return &waitingSource{src, s.read}, nil
}

func (waitingStores) Close() error { return nil }

type waitingSource struct {
	raster.Source
	read time.Duration
}

func (s *waitingSource) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	if err := backoff.Sleep(ctx, s.read); err != nil {
		return err
	}
	return s.Source.Read(ctx, bands, w, dst)
}

// waitingFunctions are the functions of the jobs: one that adds all inputs, and one that waits.
var waitingFunctions = apply.Functions{
	"sum": {Func: func(_ context.Context, b *apply.Block) error {
		out := apply.Out[uint16](b, "out")
		for i := range many {
			for p, v := range apply.Band[uint16](b, inputName(i), 1) {
				out[p] += v
			}
		}
		return nil
	}},
	"wait": {Func: func(ctx context.Context, b *apply.Block) error {
		b.SetOut("out", b.In(inputName(0)))
		return backoff.Sleep(ctx, functionOf)
	}},
}

// many is the number of inputs of the function sum.
const many = 6

func inputName(i int) string { return string(rune('a' + i)) }

// waitingWorker is this program as a worker of such a job.
func waitingWorker(args []string) error {
	if len(args) != 1 {
		return errors.New("the time of a read is missing")
	}
	read, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	apply.Main(waitingFunctions, waitingStores{read})
	return errors.New("no run to work for: the benchmark starts its workers itself")
}

// waitingJob is a job with inputs whose reads wait.
type waitingJob struct {
	function      string
	inputs        int
	read          time.Duration
	width, height int // of a block
}

// waiting compares a worker that reads with goroutines where reads wait.
func (b *bench) waiting() error {
	slots, blocks := 8, 20
	if b.Quick {
		blocks = 2
	}
	rasterSide := 64 * slots
	input := filepath.Join(b.dir, "waiting.tif")
	if _, err := apply.Run(b.ctx, apply.Job{
		Outputs: map[string]apply.Output{"a": {Path: input, TileSize: 64, NoOverviews: true}},
		Controls: apply.Controls{Grid: &raster.Grid{Width: rasterSide, Height: 64 * blocks,
			Transform: raster.Identity}},
		Func: func(_ context.Context, b *apply.Block) error {
			for i, out := 0, apply.Out[uint16](b, "a"); i < len(out); i++ {
				out[i] = uint16(i)
			}
			return nil
		},
	}); err != nil {
		return err
	}
	reading := func(slots int, read time.Duration) apply.Concurrency {
		return apply.Concurrency{On: subprocess.New(&subprocess.Options{Slots: slots, Output: os.Stderr}), Workers: 1,
			Reading: apply.ReadByWorkers, Command: []string{b.self, "workers", "reader", read.String()}}
	}
	six := waitingJob{"sum", many, readOfMany, rasterSide, 64 * blocks / 2}
	one := waitingJob{"wait", 1, readOfOne, 64, 64}
	lines := []struct {
		name  string
		job   waitingJob
		with  apply.Concurrency
		times measured.Times
	}{
		{name: "6 inputs, 2 blocks: 2 goroutines", job: six, with: apply.Concurrency{Workers: 2}},
		{name: "6 inputs, 2 blocks: a worker of 2 slots that reads", job: six, with: reading(2, readOfMany)},
		{name: fmt.Sprintf("1 input, %d blocks: %d goroutines", slots*blocks, slots), job: one,
			with: apply.Concurrency{Workers: slots, Readers: slots}},
		{name: fmt.Sprintf("1 input, %d blocks: a worker of %d slots that reads", slots*blocks, slots), job: one,
			with: reading(slots, readOfOne)},
	}
	for round := range b.Runs + 1 {
		for i := range lines {
			l := &lines[(i+round)%len(lines)]
			took, err := b.runWaiting(l.job, input, l.with)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if round > 0 {
				l.times = append(l.times, took)
			}
		}
	}
	fmt.Fprintf(b.Out, "Inputs whose reads wait: each read of a block takes %v with six inputs and %v with one, whose function waits %v too. Whole runs, without the start of the program.\n\n", readOfMany, readOfOne, functionOf)
	table := [][]string{{"", "wall", "÷ goroutines"}}
	for i, l := range lines {
		table = append(table, []string{l.name, l.times.String(), l.times.Ratio(lines[i&^1].times)})
	}
	measured.Table(b.Out, table)
	for _, l := range lines[:2] {
		b.target(l.name+" <= 0.2 s", l.times, 200*time.Millisecond)
	}
	b.ratioTarget(lines[3].name+" ÷ goroutines <= 1.15", lines[3].times, lines[2].times, 1.15)
	return nil
}

func (b *bench) runWaiting(w waitingJob, input string, with apply.Concurrency) (took time.Duration, err error) {
	out := filepath.Join(b.dir, "waited.tif")
	job := apply.Job{Inputs: map[string]apply.Input{}, Functions: waitingFunctions, Function: w.function,
		Outputs: map[string]apply.Output{"out": {Path: out, TileSize: 64, NoOverviews: true, NoStatistics: true,
			Type: ndarray.Uint16}},
		Controls:    apply.Controls{WindowWidth: w.width, WindowHeight: w.height},
		Concurrency: with, Open: waitingStores{w.read}.Open}
	for i := range w.inputs {
		job.Inputs[inputName(i)] = apply.File(input)
	}
	begin := time.Now()
	if _, err := apply.Run(b.ctx, job); err != nil {
		return 0, err
	}
	return time.Since(begin), os.Remove(out)
}
