// Command namespace measures how long the processes of a job take to get a namespace of their own,
// and how often that fails, with few and with many other jobs alive; it prints tables in Markdown.
//
// Ranks are real processes: this program, run again. They are started and warmed up before, and
// released together by the clock; a join is measured from that moment to the last rank's being a
// member. The many live jobs are held by a few processes, a hundred each, since each has all of its
// locks and descriptors for itself anyway. Runtime folder and directories are temporary ones.
//
// The peer, get_shm_prefix of MosaicML streaming, can't be installed here: its figures were
// measured before, on the same kind of machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"leat/bench/measured"
)

const ranks = 8

// theirs are the figures of MosaicML streaming, by the number of live jobs.
var theirs = map[int]struct{ slowest, descriptors string }{
	0: {"12 ms", "29"}, 10: {"27 ms", "129"}, 100: {"53 ms", "1049"}, 1000: {"495 ms", "12049"},
}

type options struct {
	runs, strangers int
	live            []int
	dir             string // of the jobs' directories
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "rank" {
		if err := serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "rank:", err)
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

func run(ctx context.Context, args []string) (err error) {
	o := options{live: []int{0, 10, 100, 1000}}
	fs := flag.NewFlagSet("namespace", flag.ContinueOnError)
	fs.IntVar(&o.runs, "runs", 25, "measured runs of each kind, after one that warms up")
	fs.IntVar(&o.strangers, "strangers", 1000, "how many times four jobs start together")
	quick := fs.Bool("quick", false, "few live jobs and few runs: tells that the benchmark works, no more")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are only options", fs.Arg(0))
	}
	if o.runs < 1 || o.strangers < 1 {
		return errors.New("-runs and -strangers must be at least 1")
	}
	if *quick {
		o.runs, o.strangers, o.live = 2, 10, o.live[:2]
	}
	for _, where := range []string{"/dev/shm", ""} { // the runtime folder lies in memory where it can
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
	fmt.Printf("%s\n\n", measured.Machine(fmt.Sprintf("go run ./bench/namespace -runs=%d -strangers=%d", o.runs,
		o.strangers)))
	return o.all(ctx)
}

func (o *options) all(ctx context.Context) error {
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
	fmt.Fprintln(os.Stderr, "strangers")
	failed, took, err := o.together(ctx)
	if err != nil {
		return err
	}
	n := o.live[len(o.live)-1]
	add(fmt.Sprintf("4 strangers that start together, %d live jobs: failures", n),
		fmt.Sprintf("%d of %d", failed, o.strangers), "8-37 %")
	add("the same: the slowest of the four", took.String(), "")
	holders.end()
	fmt.Fprintln(os.Stderr, "restarts")
	restart, err := o.restarts(ctx)
	if err != nil {
		return err
	}
	add(fmt.Sprintf("kill -9 of %d ranks, until the %d of the next run, which wait to be released, have joined", ranks,
		ranks), restart.String(), "fails after 0.73 s")
	measured.Table(os.Stdout, rows)
	fmt.Println("Medians; in brackets the lowest and highest. Each job claims a directory of its own exclusively.")
	return nil
}

// job is rank i of n of the job of that name.
func (o *options) job(name string, i, n int) *job {
	return &job{Key: name, Dir: filepath.Join(o.dir, name), Rank: i, Ranks: n}
}
