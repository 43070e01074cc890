// Package apply measures leat apply against its peers, end to end, on real processes: wall clock,
// processor time, peak memory and bytes written, in alternating runs on the same files, and prints
// a table in Markdown.
//
// Inputs are made once, from the scene of leat demo, and kept in a directory. The peers are
// scripts in peers/, run by the first Python that has NumPy and rasterio, and gdal_calc.py; the
// report names those that are not installed.
package apply

import (
	"context"
	"flag"
	"os"
	"path/filepath"

	"leat/bench/runner"
	"leat/bench/scene"
)

// withExtras is the option -extras.
var withExtras bool

// Part measures leat apply.
var Part = &runner.Part{
	Name: "apply", Summary: "leat apply and its peers: rasterio, gdal_calc.py", Runs: 7,
	Sections: []string{"ndvi", "memory", "extras", "focal", "terrain", "median", "cloudfree", "polynomial", "compute", "small"},
	Flags: func(fs *flag.FlagSet) {
		fs.BoolVar(&withExtras, "extras", false, "with -cpuprofile: with statistics, histogram and overviews")
	},
	Run: run,
	Roles: map[string]func(context.Context, []string) error{
		"job": runJob,
	},
}

// run measures, or profiles NDVI, pixels only, in this process.
func run(ctx context.Context, o *runner.Options) error {
	b := &bench{Options: o}
	if err := b.findProgram(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(b.out)
	b.inputs = &inputs{dir: b.data, leat: b.leat, peers: b.peers}
	if o.Profile != "" {
		return b.profile(ctx, o.Profile)
	}
	return b.all(ctx)
}

// findProgram finds or builds leat and makes the directories.
func (b *bench) findProgram(ctx context.Context) error {
	source, err := scene.Root(ctx)
	if err != nil {
		return err
	}
	b.peers = filepath.Join(source, "bench", "apply", "peers")
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	l, err := scene.Find(ctx, b.Leat, b.Data, "", b.say)
	if err != nil {
		return err
	}
	b.leat, b.data, b.out = l.Program, l.Data, l.Temp
	return nil
}
