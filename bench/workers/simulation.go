package workers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leat/bench/measured"
	"leat/internal/worker/coordinator"
	"leat/internal/worker/workersim"
)

// descriptors are those that a simulated worker and its end of the channel need.
const descriptors = 6

// crowd is a simulation of many workers.
type crowd struct {
	workers int
	bytes   int
	written bool // one writer puts results into a file
	compute time.Duration
}

// simulation has many workers of this process pull from one channel.
func (b *bench) simulation() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	var crowds []int
	for _, n := range b.crowds {
		if uint64(n*descriptors+100) > limit.Cur {
			fmt.Fprintf(b.Out, "%d workers were left out: this process may have %d open files (ulimit -n).\n\n", n,
				limit.Cur)
			continue
		}
		crowds = append(crowds, n)
	}
	var failures []string
	greedy := [][]string{{"workers", "results of", "", "blocks a second", "MiB a second", "lease: median", "p99",
		"longest", "all have joined after", "workers lost"}}
	for _, n := range crowds {
		for _, bytes := range []int{0, 100 << 10, 1 << 20} {
			for _, written := range []bool{false, true} {
				if written && bytes == 0 {
					continue
				}
				what := "dropped"
				if written {
					what = "written by one writer"
				}
				cells, err := b.simulate(crowd{workers: n, bytes: bytes, written: written}, &failures,
					func(all figures) []string {
						mib := all.times(func(f workersim.Figures) float64 {
							return f.PerSecond * float64(bytes) / (1 << 20)
						}).Median().Seconds()
						return append([]string{all.perSecond(), fmt.Sprintf("%.0f", mib)}, all.leases(true)...)
					})
				if err != nil {
					return err
				}
				greedy = append(greedy, append([]string{fmt.Sprint(n), size(bytes), what}, cells...))
			}
		}
	}
	fmt.Fprintf(b.Out, "Many workers in one process, by TLS over loopback, all of which want blocks all the time; nothing is computed. The workers take at least half of the processors. "+
		"\"Lease\" is how long a worker waits for the answer that gives it blocks.\n\n")
	measured.Table(b.Out, greedy)

	paced := [][]string{{"workers", "a block takes", "blocks a second", "of the possible", "lease: median", "p99",
		"longest", "workers lost"}}
	for _, n := range crowds {
		for _, compute := range []time.Duration{time.Second, 250 * time.Millisecond, 50 * time.Millisecond} {
			if n < 64 && !b.Quick {
				continue
			}
			if b.Quick {
				compute /= 50
			}
			cells, err := b.simulate(crowd{workers: n, bytes: 100 << 10, written: true, compute: compute}, &failures,
				func(all figures) []string {
					share := all.times(func(f workersim.Figures) float64 {
						return f.PerSecond * compute.Seconds() / float64(n)
					}).Median().Seconds()
					return append([]string{all.perSecond(), fmt.Sprintf("%.0f %%", 100*share)}, all.leases(false)...)
				})
			if err != nil {
				return err
			}
			paced = append(paced, append([]string{fmt.Sprint(n), compute.String()}, cells...))
		}
	}
	fmt.Fprintf(b.Out, "The same with workers that sleep on each block, results of 100 KiB written by one writer. \"Of the possible\" compares with workers that never wait; start and end, when not all have a block, are in it.\n\n")
	measured.Table(b.Out, paced)
	for _, f := range failures {
		fmt.Fprintf(b.Out, "%s\n\n", f)
	}
	return nil
}

// simulate runs one, as often as it should, and makes cells of a table of what it found. Runs that
// fail are counted there and reported.
func (b *bench) simulate(c crowd, failures *[]string, row func(figures) []string) (cells []string, err error) {
	o := workersim.Options{Workers: c.workers, BodyBytes: c.bytes, Compute: c.compute, TLS: true}
	switch {
	case c.compute > 0: // 3 s, and a few blocks for each
		o.Blocks = c.workers * int(max(4, min(40, 3*time.Second/c.compute)))
	case b.Quick:
		o.Blocks = 20 * c.workers
	// The connections that a worker makes with its first result must not count.
	default:
		least, each := 20000, 40
		switch {
		case c.bytes >= 1<<20:
			least, each = 1500, 4
		case c.bytes > 0:
			least, each = 8000, 30
		}
		o.Blocks = max(least, each*c.workers)
	}
	var all figures
	failed := 0
	for range min(b.Runs, 3) {
		f, err := b.simulateOnce(c, o)
		if b.ctx.Err() != nil {
			return nil, b.ctx.Err()
		}
		if err != nil {
			failed++
			text, _, _ := strings.Cut(err.Error(), "\n")
			*failures = append(*failures,
				fmt.Sprintf("A run of %d workers, results of %s, failed: %s", c.workers, size(c.bytes), text))
			b.Say("  %s", (*failures)[len(*failures)-1])
			continue
		}
		b.Say("  %d KiB, written %v, %v: %v", c.bytes>>10, c.written, c.compute, f)
		all = append(all, f)
	}
	cells = row(all)
	if failed > 0 {
		cells[len(cells)-1] += fmt.Sprintf("; %d of %d runs failed", failed, failed+len(all))
	}
	return cells, nil
}

func (b *bench) simulateOnce(c crowd, o workersim.Options) (f workersim.Figures, err error) {
	if !c.written {
		return workersim.Run(b.ctx, o)
	}
	file, err := os.Create(filepath.Join(b.dir, "results"))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	var mu sync.Mutex
	o.Accept = func(_ context.Context, r *coordinator.Result) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := file.Write(r.Body)
		return err
	}
	return workersim.Run(b.ctx, o)
}

// figures are those of several runs.
type figures []workersim.Figures

// times are values of the runs, in seconds.
func (all figures) times(value func(workersim.Figures) float64) (t measured.Times) {
	for _, f := range all {
		t = append(t, time.Duration(value(f)*1e9))
	}
	return t
}

// perSecond are blocks a second, with the lowest and the highest.
func (all figures) perSecond() string {
	t := all.times(func(f workersim.Figures) float64 { return f.PerSecond })
	if len(t) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f (%.0f-%.0f)", t.Median().Seconds(), slices.Min(t).Seconds(), slices.Max(t).Seconds())
}

// leases are the cells of how long workers waited, and how many were lost.
func (all figures) leases(joining bool) []string {
	values := []func(workersim.Figures) time.Duration{
		func(f workersim.Figures) time.Duration { return f.LeaseMedian },
		func(f workersim.Figures) time.Duration { return f.LeaseP99 },
		func(f workersim.Figures) time.Duration { return f.LeaseMax },
	}
	if joining {
		values = append(values, func(f workersim.Figures) time.Duration { return f.Joining })
	}
	var cells []string
	for _, value := range values {
		cells = append(cells, all.times(func(f workersim.Figures) float64 { return value(f).Seconds() }).String())
	}
	var lost int64
	for _, f := range all {
		lost += f.Lost
	}
	return append(cells, fmt.Sprint(lost))
}
