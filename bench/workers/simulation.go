package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"leat/bench/measured"
	"leat/worker"
	"leat/worker/workersim"
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
			fmt.Fprintf(b.out, "%d workers were left out: this process may have %d open files (ulimit -n).\n\n", n, limit.Cur)
			continue
		}
		crowds = append(crowds, n)
	}
	greedy := [][]string{{"workers", "results of", "", "blocks a second", "MiB a second", "lease: median", "p99", "longest", "workers lost"}}
	for _, n := range crowds {
		for _, bytes := range []int{0, 100 << 10, 1 << 20} {
			for _, written := range []bool{false, true} {
				if written && bytes == 0 {
					continue
				}
				f, err := b.simulate(crowd{workers: n, bytes: bytes, written: written})
				if err != nil {
					return err
				}
				what := "dropped"
				if written {
					what = "written by one writer"
				}
				greedy = append(greedy, append([]string{fmt.Sprint(n), size(bytes), what, perSecond(f), fmt.Sprintf("%.0f", median(f, func(f workersim.Figures) float64 { return f.PerSecond * float64(bytes) / (1 << 20) }))}, leases(f)...))
			}
		}
	}
	fmt.Fprintf(b.out, "Many workers in one process, by TLS over loopback, all of which want blocks all the time; nothing is computed. The workers take at least half of the processors. "+
		"\"Lease\" is how long a worker waits for the answer that gives it blocks.\n\n")
	measured.Table(b.out, greedy)

	paced := [][]string{{"workers", "a block takes", "blocks a second", "of the possible", "lease: median", "p99", "longest", "workers lost"}}
	for _, n := range crowds {
		for _, compute := range []time.Duration{time.Second, 250 * time.Millisecond, 50 * time.Millisecond} {
			if n < 64 && !b.quick {
				continue
			}
			if b.quick {
				compute /= 50
			}
			f, err := b.simulate(crowd{workers: n, bytes: 100 << 10, written: true, compute: compute})
			if err != nil {
				return err
			}
			share := median(f, func(f workersim.Figures) float64 { return f.PerSecond * compute.Seconds() / float64(n) })
			paced = append(paced, append([]string{fmt.Sprint(n), compute.String(), perSecond(f), fmt.Sprintf("%.0f %%", 100*share)}, leases(f)...))
		}
	}
	fmt.Fprintf(b.out, "The same with workers that sleep on each block, results of 100 KiB written by one writer. \"Of the possible\" compares with workers that never wait; start and end, when not all have a block, are in it.\n\n")
	measured.Table(b.out, paced)
	return nil
}

// simulate runs one, as often as it may, and some blocks first.
func (b *bench) simulate(c crowd) (all []workersim.Figures, err error) {
	o := workersim.Options{Workers: c.workers, BodyBytes: c.bytes, Compute: c.compute, TLS: true}
	switch {
	case c.compute > 0: // 3 s, and a few blocks for each
		o.Blocks = c.workers * int(max(4, min(40, 3*time.Second/c.compute)))
	case b.quick:
		o.Blocks = 20 * c.workers
	default: // about a second and a half, and at most 1.5 GiB
		o.Blocks = max(3000, 10*c.workers)
		if c.bytes > 0 {
			o.Blocks = max(2*c.workers, min(o.Blocks, 1536<<20/c.bytes))
		}
	}
	for range min(b.runs, 3) {
		f, err := b.simulateOnce(c, o)
		if err != nil {
			return nil, fmt.Errorf("%d workers: %w", c.workers, err)
		}
		b.say("  %d KiB, written %v, %v: %v", c.bytes>>10, c.written, c.compute, f)
		all = append(all, f)
	}
	return all, nil
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
	o.Accept = func(_ context.Context, r *worker.Result) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := file.Write(r.Body)
		return err
	}
	return workersim.Run(b.ctx, o)
}

func median(all []workersim.Figures, value func(workersim.Figures) float64) float64 {
	var t measured.Times
	for _, f := range all {
		t = append(t, time.Duration(value(f)*1e6))
	}
	return float64(t.Median()) / 1e6
}

// perSecond are blocks a second, with the lowest and the highest.
func perSecond(all []workersim.Figures) string {
	low, high := all[0].PerSecond, all[0].PerSecond
	for _, f := range all {
		low, high = min(low, f.PerSecond), max(high, f.PerSecond)
	}
	return fmt.Sprintf("%.0f (%.0f-%.0f)", median(all, func(f workersim.Figures) float64 { return f.PerSecond }), low, high)
}

// leases are the cells of how long workers waited, and how many were lost.
func leases(all []workersim.Figures) (cells []string) {
	for _, value := range []func(workersim.Figures) time.Duration{
		func(f workersim.Figures) time.Duration { return f.LeaseMedian },
		func(f workersim.Figures) time.Duration { return f.LeaseP99 },
		func(f workersim.Figures) time.Duration { return f.LeaseMax },
	} {
		var t measured.Times
		for _, f := range all {
			t = append(t, value(f))
		}
		cells = append(cells, t.String())
	}
	var lost int64
	for _, f := range all {
		lost += f.Lost
	}
	return append(cells, fmt.Sprint(lost))
}
