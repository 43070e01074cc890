// Package shm measures how arrays get from one process to others with leat's shm and with joblib's
// memmapping, in one run on one machine, and prints a table in Markdown.
//
// joblib_peer.py, in this directory, is the peer, run by the first Python that has joblib and
// NumPy; without one only leat is measured, and the output says so. Both sides do the same: an
// array of float64 is put where workers can see it, by a parent whose two workers already run, and
// a task reads one element of it.
package shm

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/shm"
)

//go:embed joblib_peer.py
var peer string

// Part measures shared memory.
var Part = &runner.Part{
	Name: "shm", Summary: "shared memory and joblib", Runs: 7,
	Run: run,
	Roles: map[string]func(context.Context, []string) error{
		"worker": func(context.Context, []string) error { return work(os.Stdin, os.Stdout) },
	},
}

func run(ctx context.Context, o *runner.Options) error {
	sizes := []int{1, 100, 1000}
	if o.Quick {
		sizes = sizes[:2]
	}
	theirs, versions, err := joblib(ctx, o.Runs, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s\n\n", measured.Machine(o.Command, versions))
	if theirs == nil {
		fmt.Fprintf(o.Out, "joblib is not installed (Debian: python3-joblib): leat alone was measured.\n\n")
	}
	rows := [][]string{{"", "leat", "joblib", "leat ÷ joblib"}}
	add := func(what string, ours measured.Times, key string) {
		rows = append(rows, []string{what, ours.String(), theirs[key].String(), ours.Ratio(theirs[key])})
	}
	for _, mb := range sizes {
		t, err := transfer(mb, o.Runs)
		if err != nil {
			return err
		}
		name, dump, load := sizeName(mb), fmt.Sprintf("dump %d", mb), fmt.Sprintf("load %d", mb)
		add("put "+name+" (joblib: dump to /dev/shm)", t.fresh, dump)
		add("put "+name+", memory of a freed array recycled", t.recycled, dump)
		if mb == 1 {
			add("attach "+name+", the first array of a new process (joblib: load, mapped)", t.cold, load)
		}
		add("attach "+name+", new to the process (joblib: load, mapped)", t.first, load)
		add("attach "+name+", known to the process", t.known, "")
	}
	c, err := calls(o.Runs)
	if err != nil {
		return err
	}
	add("100 MB to two workers: put, and one task in each", c.first, "first call")
	add("1000 tasks on an array of 100 MB that the workers know, each", c.many, "1000 tasks")
	add("the same (joblib: batch_size=1)", c.many, "1000 single")
	add("1000 tasks on an array of 80 bytes, sent inline, each", c.tiny, "1000 tiny")
	measured.Table(o.Out, rows)
	fmt.Fprintln(o.Out, "Medians; in brackets the lowest and highest. joblib sends tasks in batches of its own choice; leat's were sent one by one, each answered before the next.")
	return nil
}

func sizeName(mb int) string {
	if mb >= 1000 {
		return fmt.Sprintf("%d GB", mb/1000)
	}
	return fmt.Sprintf("%d MB", mb)
}

// joblib runs the peer; nil times where it is not installed. Times of many tasks are divided by
// their number.
func joblib(ctx context.Context, rounds, largest int) (map[string]measured.Times, string, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import joblib, numpy").Run() != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, python, "-c", peer, fmt.Sprint(rounds+1), fmt.Sprint(largest))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, "", fmt.Errorf("joblib: %w", err)
		}
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(out, &raw); err != nil {
			return nil, "", fmt.Errorf("joblib: %w", err)
		}
		versions := ""
		times := map[string]measured.Times{}
		for key, value := range raw {
			if key == "versions" {
				if err := json.Unmarshal(value, &versions); err != nil {
					return nil, "", err
				}
				continue
			}
			var seconds []float64
			if err := json.Unmarshal(value, &seconds); err != nil {
				return nil, "", fmt.Errorf("joblib: %s: %w", key, err)
			}
			for _, s := range seconds[1:] { // the first one warms up
				if strings.HasPrefix(key, "1000 ") {
					s /= 1000
				}
				times[key] = append(times[key], time.Duration(s*1e9))
			}
		}
		return times, versions, nil
	}
	return nil, "", nil
}

type transferTimes struct{ fresh, recycled, cold, first, known measured.Times }

// transfer measures one size: the parent puts, a new process attaches.
func transfer(mb, rounds int) (t transferTimes, err error) {
	data := make([]float64, mb*125_000)
	for i := range data {
		data[i] = float64(i)
	}
	fresh, err := shm.Open(&shm.Options{RecycleBytes: -1})
	if err != nil {
		return t, err
	}
	defer fresh.Close()
	kept, err := shm.Open(&shm.Options{RecycleBytes: 2 << 30})
	if err != nil {
		return t, err
	}
	defer kept.Close()
	other, err := kept.Put(make([]float64, 100_000))
	if err != nil {
		return t, err
	}
	warm, err := other.Handle()
	if err != nil {
		return t, err
	}
	for i := range rounds + 1 {
		begin := time.Now()
		a, err := fresh.Put(data)
		if err != nil {
			return t, err
		}
		took := time.Since(begin)
		cold, _, err := attached(a, data[len(data)-1], "")
		if err != nil {
			return t, err
		}
		first, known, err := attached(a, data[len(data)-1], warm)
		if err != nil {
			return t, err
		}
		if err := a.Close(); err != nil {
			return t, err
		}
		begin = time.Now()
		b, err := kept.Put(data)
		if err != nil {
			return t, err
		}
		again := time.Since(begin)
		if err := b.Close(); err != nil {
			return t, err
		}
		if i > 0 {
			t.fresh, t.recycled = append(t.fresh, took), append(t.recycled, again)
			t.cold, t.first, t.known = append(t.cold, cold), append(t.first, first), append(t.known, known)
		}
	}
	return t, nil
}

// attached has a new process attach an array, once and then again and again; before it warm, if
// that is not empty.
func attached(a *shm.Array, last float64, warm shm.Handle) (first, known time.Duration, err error) {
	h, err := a.Handle()
	if err != nil {
		return 0, 0, err
	}
	w, err := startWorker()
	if err != nil {
		return 0, 0, err
	}
	defer w.stop()
	reply, err := w.ask(request{Warm: warm, Time: true, Handle: h, Index: a.Shape()[0] - 1})
	if err != nil {
		return 0, 0, err
	}
	if reply.Value != last {
		return 0, 0, fmt.Errorf("the worker read %v, not %v", reply.Value, last)
	}
	return reply.First, reply.Known, nil
}

type callTimes struct{ first, many, tiny measured.Times }

// calls measures a parent with two workers.
func calls(rounds int) (t callTimes, err error) {
	s, err := shm.Open(nil)
	if err != nil {
		return t, err
	}
	defer s.Close()
	var workers [2]*worker
	for i := range workers {
		if workers[i], err = startWorker(); err != nil {
			return t, err
		}
		defer workers[i].stop()
	}
	big, tiny := make([]float64, 12_500_000), make([]float64, 10)
	for i := range big {
		big[i] = float64(i)
	}
	for i := range tiny {
		tiny[i] = float64(i)
	}
	for i := range rounds + 1 {
		scope, err := s.Scope()
		if err != nil {
			return t, err
		}
		begin := time.Now()
		h, err := scope.Pack(big)
		if err != nil {
			return t, err
		}
		if err := both(workers, 2, func(int) request { return request{Handle: h} }); err != nil {
			return t, err
		}
		first := time.Since(begin)
		begin = time.Now()
		if err := both(workers, 1000, func(n int) request { return request{Handle: h, Index: n} }); err != nil {
			return t, err
		}
		many := time.Since(begin) / 1000
		begin = time.Now()
		if err := both(workers, 1000, func(n int) request {
			h, err := scope.Pack(tiny) // each task has its own copy, as joblib's have
			if err != nil {
				panic(err)
			}
			return request{Handle: h, Index: n % 10}
		}); err != nil {
			return t, err
		}
		small := time.Since(begin) / 1000
		if err := scope.Close(); err != nil {
			return t, err
		}
		if i > 0 {
			t.first, t.many, t.tiny = append(t.first, first), append(t.many, many), append(t.tiny, small)
		}
	}
	return t, nil
}
