// Package workers measures workers in other processes: how soon they start, what a block's way to a
// worker and back costs, leat apply with them and in one process, what the loss of a worker costs,
// how soon a Slurm job has finished its first block, and how many workers one channel can serve. It
// prints tables in Markdown.
//
// leat is the real program, built as make build does; whole runs are timed from outside. Blocks
// without work are computed by this program, started again as a worker. Outputs of leat are
// compared by their SHA-256: a different one ends the benchmark.
//
// The peer, RIOS, is not run: its figures were measured separately, on the same kind of machine.
package workers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/bench/scene"
)

// Part measures workers in other processes.
var Part = &runner.Part{
	Name: "workers", Summary: "workers in other processes", Runs: 5,
	Sections: []string{"start", "trivial", "ndvi", "kill", "waiting", "slurm", "simulation"},
	Run:      run,
	Roles: map[string]func(context.Context, []string) error{
		"worker": func(ctx context.Context, _ []string) error {
			if err := work(ctx); ctx.Err() == nil {
				return err
			}
			return nil
		},
		"reader": func(_ context.Context, args []string) error { return waitingWorker(args) },
	},
}

// bench is a run of the benchmark.
type bench struct {
	*runner.Options
	starts  int   // of a worker
	jobs    int   // of Slurm
	side    int   // of the rasters
	large   int   // of the rasters whose runs lose a worker
	trivial int   // blocks without work
	touched int64 // bytes of memory before a run of NDVI
	crowds  []int
	ctx     context.Context
	leat    *scene.Leat
	self    string // this program
	dir     string // directory of all else, removed at the end
	build   string // of this program
	targets [][]string
}

func run(ctx context.Context, o *runner.Options) (err error) {
	b := &bench{Options: o, ctx: ctx, starts: 20, jobs: 5, side: 5490, large: 10980, trivial: 1000, touched: 512 << 20,
		crowds: []int{1, 16, 64, 256, 1000}}
	if o.Quick {
		b.starts, b.jobs, b.side, b.large, b.trivial, b.touched = 2, 1, 600, 1500, 40, 8<<20
		b.crowds = []int{1, 8}
	}
	if b.dir, err = os.MkdirTemp(o.Dir, "leat-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.prepare(); err != nil {
		return err
	}
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	out := o.Out
	fmt.Fprintf(out, "%s\n\n%s\n\n", measured.Machine(o.Command, scene.Version(ctx)), notes)
	if o.Quick {
		fmt.Fprint(out, runner.QuickNote)
	}
	for _, p := range parts {
		if !o.Only.MatchString(p.name) {
			continue
		}
		b.Say("%s", p.name)
		if err := p.run(b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if len(b.targets) > 0 {
		measured.Table(out, append([][]string{{"target", "measured", ""}}, b.targets...))
	}
	return nil
}

const notes = "Medians; in brackets the lowest and highest. Lines of one table are measured in turn, round by round. Whole runs are timed from outside, from the start of `leat` to its end, and their processor time has that of their workers in it. Before each run of NDVI 512 MiB of memory are touched, more than it needs: where the kernel has to get pages from the host of a virtual machine first, that takes as long as the run."

// parts are measured in this order.
var parts = []struct {
	name string
	run  func(*bench) error
}{
	{"start", (*bench).start}, {"trivial", (*bench).trivialBlocks}, {"ndvi", (*bench).ndvi}, {"kill", (*bench).kill},
	{"waiting", (*bench).waiting}, {"slurm", (*bench).slurm}, {"simulation", (*bench).simulation},
}

// prepare finds or builds the programs, and makes the directory of inputs.
func (b *bench) prepare() (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.build, err = buildID(); err != nil {
		return err
	}
	b.leat, err = scene.Find(b.ctx, b.Leat, b.Data, b.dir, b.Say)
	return err
}
