// Command workers measures workers in other processes: how soon they are there, what a block costs
// on its way to one and back, leat apply with them beside leat apply in one process, what the loss
// of one costs, how soon a job of Slurm has its first block done, and how many workers one channel
// can stand. It prints tables in Markdown.
//
// leat is the real program, built as make build does; whole runs are timed from outside. Blocks
// without work are computed by this program, started again as a worker. Outputs of leat are
// compared by their SHA-256: another one ends the benchmark.
//
// The peer, RIOS, can't be installed here: its figures were measured before, on the same kind of
// machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"strings"
	"syscall"

	"leat/bench/measured"
	"leat/bench/scene"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	err := run(ctx, os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are those of the command line, and sizes that follow from them.
type options struct {
	runs    int
	starts  int   // of a worker
	jobs    int   // of Slurm
	side    int   // of the rasters
	large   int   // of the rasters whose runs lose a worker
	trivial int   // blocks without work
	touched int64 // bytes of memory before a run of NDVI
	crowds  []int
	quick   bool
	verbose bool
}

// bench is a run of the benchmark.
type bench struct {
	options
	ctx     context.Context
	out     io.Writer
	leat    *scene.Leat
	self    string // this program
	dir     string // folder of all else, removed at the end
	build   string // of this program
	targets [][]string
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o := options{starts: 20, jobs: 5, side: 5490, large: 10980, trivial: 1000, touched: 512 << 20,
		crowds: []int{1, 16, 64, 256, 1000}}
	fs := flag.NewFlagSet("workers", flag.ContinueOnError)
	only, data, leat, profile := "", "", "", ""
	fs.IntVar(&o.runs, "runs", 5, "measured runs of each line, after one that warms up")
	fs.StringVar(&only, "only", "", "only parts whose name matches this `regexp` ("+strings.Join(partNames(), ", ")+")")
	fs.StringVar(&data, "data", "", "`folder` of inputs, made when missing (default: bench/data of the sources)")
	fs.StringVar(&leat, "leat", "", "measure this `program` instead of building one")
	fs.StringVar(&profile, "cpuprofile", "",
		"write a processor profile of this process, which the channel and the simulated workers run in, to `file`")
	fs.BoolVar(&o.quick, "quick", false, "little of everything, once: tells that the benchmark works, no more")
	fs.BoolVar(&o.verbose, "v", false, "print each run")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are only options", fs.Arg(0))
	}
	if o.runs < 1 {
		return fmt.Errorf("-runs %d: at least 1", o.runs)
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	command := fmt.Sprintf("go run ./bench/workers -runs=%d", o.runs)
	if only != "" {
		command += fmt.Sprintf(" -only='%s'", only)
	}
	if o.quick {
		command = "go run ./bench/workers -quick"
		o = options{runs: 1, starts: 2, jobs: 1, side: 600, large: 1500, trivial: 40, touched: 8 << 20,
			crowds: []int{1, 8}, quick: true, verbose: o.verbose}
	}
	b := &bench{options: o, ctx: ctx, out: out}
	if b.dir, err = os.MkdirTemp("", "leat-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.prepare(data, leat); err != nil {
		return err
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	fmt.Fprintf(out, "%s\n\n%s\n\n", measured.Machine(command, scene.Version(ctx)), notes)
	if o.quick {
		fmt.Fprint(out, "**Quick: little of everything, once. These numbers tell that the benchmark works and nothing else.**\n\n")
	}
	for _, p := range parts {
		if !wanted.MatchString(p.name) {
			continue
		}
		b.say("%s", p.name)
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
	{"slurm", (*bench).slurm}, {"simulation", (*bench).simulation},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// prepare finds or builds the programs, and finds the folder of inputs.
func (b *bench) prepare(data, leat string) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.build, err = buildID(); err != nil {
		return err
	}
	b.leat, err = scene.Find(b.ctx, leat, data, b.dir, b.say)
	return err
}

// say tells people how far things are.
func (b *bench) say(format string, args ...any) {
	if !b.quick || b.verbose {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
