// Package namespace measures how long the processes of a job take to get a namespace of their own,
// and how often that fails, with few and with many other jobs alive; it prints tables in Markdown.
//
// Ranks are real processes: this program, run again. They are started and warmed up before, and
// released together by the clock; a join is measured from that moment to the last rank's being a
// member. The many live jobs are held by a few processes, a hundred each, since each job has its
// own locks and descriptors anyway. Runtime directory and directories are temporary ones.
//
// The peer, get_shm_prefix of MosaicML streaming, is not run: its figures were measured separately,
// on the same kind of machine.
package namespace

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"leat/bench/measured"
	"leat/bench/runner"
)

const ranks = 8

// theirs are the figures of MosaicML streaming, by the number of live jobs.
var theirs = map[int]struct{ slowest, descriptors string }{
	0: {"12 ms", "29"}, 10: {"27 ms", "129"}, 100: {"53 ms", "1049"}, 1000: {"495 ms", "12049"},
}

var starts int

// Part measures how processes join a namespace.
var Part = &runner.Part{
	Name: "namespace", Summary: "joining a namespace, with few and many other jobs alive", Runs: 25,
	Flags: func(fs *flag.FlagSet) {
		fs.IntVar(&starts, "starts", 1000, "how many times four jobs start together")
	},
	Run: run,
	Roles: map[string]func(context.Context, []string) error{
		"rank": func(context.Context, []string) error { return serve(os.Stdin, os.Stdout) },
	},
}

type options struct {
	runs, starts int
	live         []int
	dir          string // of the jobs' directories
}

func run(ctx context.Context, opts *runner.Options) (err error) {
	if starts < 1 {
		return fmt.Errorf("-starts %d: expected at least 1", starts)
	}
	o := options{runs: opts.Runs, starts: starts, live: []int{0, 10, 100, 1000}}
	if opts.Quick {
		o.runs, o.starts, o.live = 2, 10, o.live[:2]
	}
	for _, where := range []string{"/dev/shm", ""} { // the runtime directory lies in memory where it can
		if root, err := os.MkdirTemp(where, "leat-bench-"); err == nil {
			defer os.RemoveAll(root)
			if err := os.Setenv("LEAT_RUNTIME_DIR", root); err != nil {
				return err
			}
			break
		}
	}
	if o.dir, err = os.MkdirTemp("", "leat-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	fmt.Fprintf(opts.Out, "%s\n\n", measured.Machine(opts.Command))
	return o.all(ctx, opts.Out)
}

func (o *options) all(ctx context.Context, out io.Writer) error {
	rows := [][]string{{"", "leat", "MosaicML streaming, measured elsewhere"}}
	add := func(what, ours, peer string) { rows = append(rows, []string{what, ours, peer}) }
	holders := &pool{ctx: ctx}
	defer holders.end()
	for _, live := range o.live {
		fmt.Fprintf(os.Stderr, "%d live jobs\n", live)
		if err := holders.hold(live, o.dir); err != nil {
			return err
		}
		j, err := o.joins(ctx)
		if err != nil {
			return fmt.Errorf("%d live jobs: %w", live, err)
		}
		add(fmt.Sprintf("leader and %d followers, until the last has joined, %d live jobs", ranks-1, live),
			j.last.String(), theirs[live].slowest)
		add(fmt.Sprintf("the slowest call of Join alone, %d live jobs", live), j.slowest.String(), "")
		add(fmt.Sprintf("one process alone, %d live jobs", live), j.alone.String(), "")
		add(fmt.Sprintf("descriptors that a member keeps open, %d live jobs", live), fmt.Sprint(j.descriptors),
			theirs[live].descriptors)
	}
	fmt.Fprintln(os.Stderr, "jobs that start together")
	failed, took, err := o.together(ctx)
	if err != nil {
		return err
	}
	n := o.live[len(o.live)-1]
	add(fmt.Sprintf("4 jobs that start together, %d live jobs: failures", n),
		fmt.Sprintf("%d of %d", failed, o.starts), "8-37 %")
	add("the same: the slowest of the four", took.String(), "")
	holders.end()
	fmt.Fprintln(os.Stderr, "restarts")
	restart, err := o.restarts(ctx)
	if err != nil {
		return err
	}
	add(fmt.Sprintf("kill -9 of %d ranks, until the %d of the next run, which wait to be released, have joined", ranks,
		ranks), restart.String(), "fails after 0.73 s")
	measured.Table(out, rows)
	fmt.Fprintln(out, "Medians; in brackets the lowest and highest. Each job claims a directory of its own exclusively.")
	return nil
}

// job is rank i of n of the job of that name.
func (o *options) job(name string, i, n int) *job {
	return &job{Key: name, Dir: filepath.Join(o.dir, name), Rank: i, Ranks: n}
}
