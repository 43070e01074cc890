// Command stage measures leat's stage: how fast it brings objects to the disk and gives them back,
// what that costs of the processor, of memory and of requests to the source. It prints tables in
// Markdown.
//
// Everything that is measured is done by processes of its own: this program, run again, each with a
// fresh heap. Objects come from a source within the process, which sleeps before each, or from an
// HTTP server in another process on 127.0.0.1. Beside leat the same job is done by a plain program
// without a stage (plain.go), and by single steps of it that show what the machine takes at least.
// Every object that is read is looked at: a wrong one ends the benchmark.
//
// The peer, FileStoreCachePool of Megatron-Energon, can't be installed here: its figures were
// measured before, on the same kind of machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"leat/bench/measured"
)

func main() {
	if len(os.Args) == 2 && (os.Args[1] == "worker" || os.Args[1] == "server") {
		role := work
		if os.Args[1] == "server" {
			role = serve
		}
		if err := role(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// sizes are how much is measured.
type sizes struct {
	runs, bigRuns int
	objects       int   // of 100 KiB
	shared        int   // that several processes want
	large         int   // of 8 MiB
	big           int64 // bytes of the one object that is read by ranges
	side          int   // of the rasters
	rooms         int   // of hitsRooms
}

const (
	smallSize = 100 << 10
	largeSize = 8 << 20
)

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s := sizes{shared: 300, large: 64, big: 1 << 30, side: 5490, rooms: len(hitsRooms)}
	fs := flag.NewFlagSet("stage", flag.ContinueOnError)
	fs.IntVar(&s.runs, "runs", 5, "measured rounds")
	fs.IntVar(&s.bigRuns, "big-runs", 3, "measured rounds of the object of 1 GiB, each of half a minute")
	cogs := fs.Bool("cogs", false, "measure the two COGs alone")
	hits := fs.Bool("hits", false, "measure the hit rates of epochs alone")
	fs.IntVar(&s.objects, "objects", 2000, "objects of 100 KiB")
	where := fs.String("dir", "", "where objects are staged; by default where temporary files are, and for some lines of the tables /dev/shm too")
	profiles := fs.String("profiles", "", "a folder that gets processor profiles of the measured processes")
	quick := fs.Bool("quick", false, "little of everything: tells that the benchmark works, no more")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are only options", fs.Arg(0))
	}
	if s.runs < 1 || s.bigRuns < 1 {
		return fmt.Errorf("-runs %d -big-runs %d: at least 1", s.runs, s.bigRuns)
	}
	if s.objects < 1 || s.objects > maxObjects {
		return fmt.Errorf("-objects %d: 1 to %d", s.objects, maxObjects)
	}
	if *quick {
		s = sizes{runs: 1, bigRuns: 1, objects: 100, shared: 20, large: 6, big: 24 << 20, side: 700, rooms: 1}
	}
	b := &bench{sizes: s, ctx: ctx}
	if *profiles != "" {
		if b.profiles, err = filepath.Abs(*profiles); err != nil {
			return err
		}
	}
	places := []place{{name: "disk", parent: *where}}
	if *where == "" && !*quick {
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
	command := fmt.Sprintf("go run ./bench/stage -runs=%d -big-runs=%d -objects=%d", s.runs, s.bigRuns, s.objects)
	if *cogs {
		command = fmt.Sprintf("go run ./bench/stage -cogs -runs=%d", s.runs)
	}
	if *hits {
		command = fmt.Sprintf("go run ./bench/stage -hits -runs=%d", s.runs)
	}
	fmt.Fprintf(out, "%s\n\n", measured.Machine(command))
	if *hits {
		if err := b.allHits(b.runs); err != nil {
			return err
		}
		b.printHits(out)
		return nil
	}
	if *cogs {
		if err := b.cogs(2*b.runs - 1); err != nil {
			return fmt.Errorf("two COGs: %w", err)
		}
		b.printCOGs(out)
		return nil
	}
	if err := b.all(); err != nil {
		return err
	}
	b.print(out)
	return nil
}

// place is where objects are staged: on the disk, or in memory.
type place struct{ name, parent, dir string }

// bench is a run of the benchmark.
type bench struct {
	sizes
	ctx      context.Context
	places   []place
	profiles string
	results  results
}
