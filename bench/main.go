// Command bench measures leat apply against its peers, end to end, on real processes: wall clock,
// processor time, peak memory and bytes written, in alternating runs on the same files, and prints
// a table in Markdown.
//
// Inputs are made once, from the scene of leat demo, and kept in a folder. The peers are scripts in
// bench/peers, run by the first Python that has NumPy and rasterio, and gdal_calc.py; those that
// are not installed are left out, and the output says so. README.md beside this file tells what is
// measured and how.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// options are those of the command line, and what follows from them.
type options struct {
	runs       int
	cases      *regexp.Regexp
	data       string // folder of inputs, absolute
	out        string // folder of outputs, absolute; gone at the end
	quick      bool
	verbose    bool
	withExtras bool
	leat       string // the program
	self       string // this program
	peers      string // folder of scripts, absolute
	command    string // for the heading
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "job" {
		if err := runJob(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench job:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o := options{command: "go run ./bench"}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	cases, data, profile := "", "", ""
	fs.IntVar(&o.runs, "runs", 7, "measured runs of each variant, after one that warms up")
	fs.StringVar(&cases, "cases", "", "only cases whose name matches this `regexp` (ndvi, memory, extras, focal, median, polynomial, compute, small)")
	fs.StringVar(&data, "data", "", "`folder` of inputs, made when missing (default: data, beside the sources)")
	fs.BoolVar(&o.quick, "quick", false, "small inputs and one run: tells that the benchmark works, no more")
	fs.BoolVar(&o.verbose, "v", false, "print each run")
	fs.StringVar(&o.leat, "leat", "", "measure this `program` instead of building one")
	fs.StringVar(&profile, "cpuprofile", "",
		"run NDVI, pixels only, in this process and write a profile to `file` for go tool pprof; nothing else")
	fs.BoolVar(&o.withExtras, "extras", false, "with -cpuprofile: with statistics, histogram and overviews")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are only options", fs.Arg(0))
	}
	if o.runs < 1 {
		return fmt.Errorf("-runs %d: at least 1", o.runs)
	}
	if o.quick {
		o.runs = 1
	}
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "runs", "cases", "quick": // others change no number, or name paths of this machine
			o.command += fmt.Sprintf(" -%s='%v'", f.Name, f.Value)
		}
	})
	var err error
	if o.cases, err = regexp.Compile(cases); err != nil {
		return fmt.Errorf("-cases: %w", err)
	}
	if err := o.folders(ctx, data); err != nil {
		return err
	}
	defer os.RemoveAll(o.out)
	b := &bench{options: o, inputs: &inputs{dir: o.data, leat: o.leat, peers: o.peers}}
	if profile != "" {
		return b.profile(ctx, profile)
	}
	return b.all(ctx)
}

// folders finds the sources, makes the folders, and builds leat.
func (o *options) folders(ctx context.Context, data string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "leat").Output()
	if err != nil {
		return fmt.Errorf("finding the sources (run it from within the repository): %w", err)
	}
	root := strings.TrimSpace(string(out))
	o.peers = filepath.Join(root, "bench", "peers")
	if data == "" {
		data = filepath.Join(root, "bench", "data")
	}
	if o.data, err = filepath.Abs(data); err != nil {
		return err
	}
	if err := os.MkdirAll(o.data, 0o777); err != nil {
		return err
	}
	if o.self, err = os.Executable(); err != nil {
		return err
	}
	if o.out, err = os.MkdirTemp(o.data, "out-"); err != nil {
		return err
	}
	if o.leat != "" {
		o.leat, err = filepath.Abs(o.leat)
		return err
	}
	o.leat = filepath.Join(o.out, "leat")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "disable_grpc_modules", "-trimpath", "-ldflags", "-s -w",
		"-o", o.leat, "./cmd/leat")
	build.Dir, build.Stderr, build.Env = root, os.Stderr, append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return fmt.Errorf("building leat: %w", err)
	}
	return nil
}
