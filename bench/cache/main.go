// Package cache measures leat's cache and two peers, in one run on one machine, and prints tables
// in Markdown: LMDB through python3-lmdb, and the same idea with a lock for every operation, in Go
// (locked.go), which is how pfio's MultiprocessFileCache works.
//
// Processes are real ones: this program, run again, and forks of lmdb_peer.py, which is run by the
// first Python that has LMDB; without one LMDB is left out, and the output says so. They warm up
// first, begin together, and run for a fixed time. Every entry that is read is checked: a wrong one
// ends the benchmark.
package cache

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"leat/bench/measured"
	"leat/bench/runner"
)

var seconds time.Duration

// Part measures the cache.
var Part = &runner.Part{
	Name: "cache", Summary: "the cache, LMDB, and a lock for every operation", Runs: 5,
	Sections: []string{"words of the lines of the table"},
	Flags: func(fs *flag.FlagSet) {
		fs.DurationVar(&seconds, "for", time.Second, "how long each measurement runs")
	},
	Run: run,
	Roles: map[string]func(context.Context, []string) error{
		"worker": func(context.Context, []string) error { return work(os.Stdin, os.Stdout) },
	},
}

func run(ctx context.Context, o *runner.Options) (err error) {
	if seconds <= 0 {
		return fmt.Errorf("-for %v: expected a duration above 0", seconds)
	}
	out := o.Out
	s := fullSize(o.Runs, seconds)
	if o.Quick {
		s = quickSize()
	}
	if !o.OnlyAll {
		s.only = o.Only
	}
	systems := []system{leatSystem{}, lockedSystem{}}
	peer, err := startLMDB(ctx)
	if err != nil {
		return err
	}
	versions := ""
	if peer != nil {
		defer peer.end()
		versions = peer.versions
		systems = append(systems, lmdbSystem{p: peer}, lmdbSystem{p: peer, tuned: true})
	}
	dir, err := os.MkdirTemp(o.Dir, "leat-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(out, "%s\n\n", measured.Machine(o.Command, versions))
	if peer == nil {
		fmt.Fprintf(out, "LMDB is not installed (Debian: python3-lmdb): it was left out.\n\n")
	}
	b := &bench{sizes: s, systems: systems, dir: dir, places: map[string]place{}, results: newResults()}
	if err := errors.Join(b.all(ctx), b.end()); err != nil {
		return err
	}
	b.print(out, s, systems)
	fmt.Fprintln(out, "Medians; in brackets the lowest and highest. Reads are of entries in memory, in random order, each process having read all of them before."+
		" A view looks at one byte; with a lock per operation there is none: what it reads into the same memory"+
		" again stands in its place. LMDB's copies are Python's, whose allocator gives the same memory again; Go's go to new memory through a heap that is otherwise empty, which is collected"+
		" after every 4 MiB. Puts go to scattered slots of an empty cache;"+
		" with a lock per operation, and by LMDB as it comes, each is brought to the disk. LMDB has a transaction for every operation; tuned: one for 1000 gets,"+
		" and puts are not brought to the disk. It is called from Python.")
	fmt.Fprintln(out)
	if s.only == nil {
		printTargets(out, b.targets(s))
	}
	return nil
}

// bench is a run.
type bench struct {
	sizes
	*results
	systems []system
	dir     string
	places  map[string]place // of entries that are only read, by system and size
}

func (b *bench) all(ctx context.Context) error {
	for round := range b.runs {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, b.runs)
		for k := range b.systems {
			if !b.wanted(b.openWhat()) {
				break
			}
			y := b.systems[(k+round)%len(b.systems)]
			took, err := y.open(b.dir, b.openSlots)
			if err != nil {
				return fmt.Errorf("%s, open: %w", y.name(), err)
			}
			b.open[y.name()] = append(b.open[y.name()], took)
		}
		for _, x := range b.rows() {
			for k := range b.systems {
				y := b.systems[(k+round)%len(b.systems)]
				parts, err := b.one(ctx, y, x.task)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", y.name(), x.what, err)
				}
				b.add(x.key, y.name(), perSecond(parts))
			}
		}
		for k := range b.systems {
			if !b.wanted(mixedWhat()) {
				break
			}
			y := b.systems[(k+round)%len(b.systems)]
			parts, err := b.one(ctx, y, b.mixed())
			if err != nil {
				return fmt.Errorf("%s, one writer against %d readers: %w", y.name(), mixedReaders, err)
			}
			b.add(keyPuts, y.name(), perSecond(parts[:1]))
			b.add(keyReads, y.name(), perSecond(parts[1:]))
		}
	}
	return nil
}

// one measures a task: in entries that stay, or in ones of its own if it puts.
func (b *bench) one(ctx context.Context, y system, t task) ([]part, error) {
	if t.Fresh == 0 {
		w, err := b.place(y, t)
		if err != nil {
			return nil, err
		}
		return y.measure(ctx, t, w)
	}
	dir, err := os.MkdirTemp(b.dir, "put-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := measured.TouchMemory(dir, t.Limit*int64(t.Size)); err != nil {
		return nil, err
	}
	w, err := y.make(dir, t)
	if err != nil {
		return nil, err
	}
	parts, err := y.measure(ctx, t, w)
	return parts, errors.Join(err, w.drop())
}

// place returns entries to read, making them before their first use.
func (b *bench) place(y system, t task) (place, error) {
	name := fmt.Sprintf("%s %d", y.name(), t.Size)
	if w, ok := b.places[name]; ok {
		return w, nil
	}
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return place{}, err
	}
	w, err := y.make(dir, t)
	if err != nil {
		return place{}, err
	}
	b.places[name] = w
	// They are not to be written back while something is measured.
	syscall.Sync()
	return w, nil
}

func (b *bench) end() error {
	var errs []error
	for _, w := range b.places {
		errs = append(errs, w.drop())
	}
	return errors.Join(errs...)
}
