// Command gdal measures what goes through libgdal: blocks read through leat's binding beside a
// program in C that reads the same blocks with the same library, and leat apply with an input that
// is warped on read beside gdalwarp and leat apply after it. It prints tables in Markdown.
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
	"strings"
	"syscall"

	"leat/bench/measured"
	"leat/bench/scene"
	"leat/internal/gdal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	blocks  int // side of the rasters that are read block by block
	side    int // of the bands of the whole run
	quick   bool
	verbose bool
}

// bench is a run of the benchmark.
type bench struct {
	options
	ctx     context.Context
	out     io.Writer
	leat    *scene.Leat
	dir     string // folder of all that is not kept
	targets [][]string
}

var parts = []struct {
	name string
	run  func(*bench) error
}{{"reads", (*bench).reads}, {"warp", (*bench).warp}}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o := options{blocks: 4096, side: 5490}
	fs := flag.NewFlagSet("gdal", flag.ContinueOnError)
	only, data, leat := "", "", ""
	fs.IntVar(&o.runs, "runs", 5, "measured runs of each line, after one that warms up")
	fs.StringVar(&only, "only", "", "only parts whose name matches this `regexp` (reads, warp)")
	fs.StringVar(&data, "data", "", "`folder` of inputs, made when missing (default: bench/data of the sources)")
	fs.StringVar(&leat, "leat", "", "measure this `program` instead of building one")
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
	version, err := gdal.Version()
	if err != nil {
		return err
	}
	command := strings.TrimSpace("go run ./bench/gdal " + strings.Join(args, " "))
	if o.quick {
		o.runs, o.blocks, o.side = 1, 1024, 600
	}
	b := &bench{options: o, ctx: ctx, out: out}
	if b.dir, err = os.MkdirTemp("", "leat-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.leat, err = scene.Find(ctx, leat, data, b.dir, b.say); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\nMedians; in brackets the lowest and highest. Lines of one table are measured in turn, round by round.\n\n",
		measured.Machine(command, scene.Version(ctx), "GDAL "+version))
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
	measured.Table(out, append([][]string{{"target", "measured", ""}}, b.targets...))
	return nil
}

// say tells people how far things are.
func (b *bench) say(format string, args ...any) {
	if !b.quick || b.verbose {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

func (b *bench) target(what, got string, met bool) {
	verdict := "missed"
	if met {
		verdict = "met"
	}
	b.targets = append(b.targets, []string{what, got, verdict})
}
