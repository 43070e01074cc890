// Package gdal measures what goes through libgdal: blocks read through leat's binding and by a
// program in C that reads the same blocks with the same library, and leat apply with an input that
// is warped on read, and gdalwarp and leat apply after it. It prints tables in Markdown.
package gdal

import (
	"context"
	"errors"
	"fmt"
	"os"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/bench/scene"
	"leat/internal/gdal"
)

// Part measures what goes through GDAL.
var Part = &runner.Part{
	Name: "gdal", Summary: "reading and warping through GDAL", Runs: 5,
	Sections: []string{"reads", "warp"},
	Run:      run,
}

// bench is a run of the benchmark.
type bench struct {
	*runner.Options
	blocks  int // side of the rasters that are read block by block
	side    int // of the bands of the whole run
	ctx     context.Context
	leat    *scene.Leat
	dir     string // directory of all that is not kept
	targets [][]string
}

var parts = []struct {
	name string
	run  func(*bench) error
}{{"reads", (*bench).reads}, {"warp", (*bench).warp}}

func run(ctx context.Context, o *runner.Options) (err error) {
	version, err := gdal.Version()
	if err != nil {
		return err
	}
	b := &bench{Options: o, ctx: ctx, blocks: 4096, side: 5490}
	if o.Quick {
		b.blocks, b.side = 1024, 600
	}
	if b.dir, err = os.MkdirTemp(o.Dir, "leat-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.leat, err = scene.Find(ctx, o.Leat, o.Data, b.dir, b.Say); err != nil {
		return err
	}
	out := o.Out
	fmt.Fprintf(out, "%s\n\nMedians; in brackets the lowest and highest. Lines of one table are measured in turn, round by round.\n\n",
		measured.Machine(o.Command, scene.Version(ctx), "GDAL "+version))
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
	measured.Table(out, append([][]string{{"target", "measured", ""}}, b.targets...))
	return nil
}

func (b *bench) target(what, got string, met bool) {
	verdict := "missed"
	if met {
		verdict = "met"
	}
	b.targets = append(b.targets, []string{what, got, verdict})
}
