// Command stage measures leat's stage: how fast it brings objects to the disk and gives them back,
// what that costs of the processor, of memory and of requests to the source. It prints tables in
// Markdown.
//
// Everything that is measured is done by processes of its own: this program, run again, each with a
// fresh heap. Objects come from a source within the process, which sleeps before each, or from an
// HTTP server in another process on 127.0.0.1. The same job is also done by a plain program
// without a stage (plain.go), and by single steps of it that show what the machine takes at least.
// Every object that is read is looked at: a wrong one ends the benchmark.
//
// The peer, FileStoreCachePool of Megatron-Energon, can't be installed here: its figures were
// measured before, on the same kind of machine.
package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leat/bench/measured"
	"leat/bench/runner"
)

var (
	bigRuns, objects int
	profiles         string
	latency          time.Duration
)

// Part measures the stage.
var Part = &runner.Part{
	Name: "stage", Summary: "the stage, and a plain program without one", Runs: 5,
	Sections: sections,
	Flags: func(fs *flag.FlagSet) {
		fs.IntVar(&bigRuns, "big-runs", 3, "measured rounds of the object of 1 GiB, each of half a minute")
		fs.IntVar(&objects, "objects", 2000, "objects of 100 KiB")
		fs.DurationVar(&latency, "latency", 0, "latency of the COGs' server (default 20ms, then 100ms)")
		fs.StringVar(&profiles, "profiles", "", "a `directory` for processor profiles of the measured processes")
	},
	Run: run,
	Roles: map[string]func(context.Context, []string) error{
		"worker": func(context.Context, []string) error { return work(os.Stdin, os.Stdout) },
		"server": func(context.Context, []string) error { return serve(os.Stdin, os.Stdout) },
	},
}

// sizes are how much is measured.
type sizes struct {
	runs, bigRuns int
	objects       int   // of 100 KiB
	shared        int   // that several processes want
	large         int   // of 8 MiB
	big           int64 // bytes of the one object that is read by ranges
	side          int   // of the rasters
	epochs        int   // of hitsSizes
}

const (
	smallSize = 100 << 10
	largeSize = 8 << 20
)

func run(ctx context.Context, o *runner.Options) (err error) {
	if latency < 0 {
		return fmt.Errorf("-latency %v: expected a duration above 0", latency)
	}
	if bigRuns < 1 {
		return fmt.Errorf("-big-runs %d: expected at least 1", bigRuns)
	}
	if objects < 1 || objects > maxObjects {
		return fmt.Errorf("-objects %d: expected 1 to %d", objects, maxObjects)
	}
	s := sizes{runs: o.Runs, bigRuns: bigRuns, objects: objects, shared: 300, large: 64, big: 1 << 30, side: 5490,
		epochs: len(hitsSizes)}
	if o.Quick {
		s = sizes{runs: 1, bigRuns: 1, objects: 100, shared: 20, large: 6, big: 24 << 20, side: 700, epochs: 1}
	}
	out := o.Out
	b := &bench{sizes: s, ctx: ctx}
	if profiles != "" {
		if b.profiles, err = filepath.Abs(profiles); err != nil {
			return err
		}
	}
	places := []place{{name: "disk", parent: o.Dir}}
	if o.Dir == "" && !o.Quick {
		places = append(places, place{name: "memory", parent: "/dev/shm"})
	}
	for _, p := range places {
		if p.dir, err = os.MkdirTemp(p.parent, "leat-bench-"); err != nil {
			if p.name == "memory" { // not every system has one
				continue
			}
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
		b.places = append(b.places, p)
	}
	fmt.Fprintf(out, "%s\n\n", measured.Machine(o.Command))
	b.wanted, b.complete = o.Only.MatchString, o.OnlyAll
	if !slices.ContainsFunc(sections, b.wanted) {
		return fmt.Errorf("-only: no section matches, expected one of %s", strings.Join(sections, ", "))
	}
	if err := b.all(); err != nil {
		return err
	}
	b.print(out)
	return nil
}

// sections are what -only selects from.
var sections = []string{"speed", "cost", "server", "processes", "memory", "hits", "cogs", "large"}

// place is where objects are staged: on the disk, or in memory.
type place struct{ name, parent, dir string }

// bench is a run of the benchmark.
type bench struct {
	sizes
	ctx      context.Context
	places   []place
	wanted   func(section string) bool
	complete bool // all sections are wanted
	profiles string
	results  results
}
