package batchsys

import (
	"context"
	"time"

	"leat/worker"
)

// Pace is the interval between job queries: it grows by half from query to query, from First up to
// Longest.
type Pace struct{ First, Longest time.Duration }

// Next returns the interval after wait.
func (p Pace) Next(wait time.Duration) time.Duration { return min(wait*3/2, p.Longest) }

// Watch queries jobs until all workers have ended or ctx ends. look returns the workers that have
// ended since the last query and how many are left. Watch calls o.Gone for each ended worker,
// o.Looked after each query, and unknown with the first of several errors in a row. Errors end no
// worker: the system may be busy or restarting.
func (p Pace) Watch(ctx context.Context, look func(ctx context.Context) (ended []worker.Exit, left int, err error),
	o *worker.StartOptions, unknown func(error)) {
	said := false
	for wait := p.First; Sleep(ctx, wait); wait = p.Next(wait) {
		ended, left, err := look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !said {
			unknown(err)
		}
		said = err != nil
		if o.OnQuery != nil {
			o.OnQuery(err)
		}
		for _, e := range ended {
			o.OnExit(e)
		}
		if left == 0 && err == nil {
			return
		}
		if len(ended) > 0 {
			wait = p.First
		}
	}
}

// Sleep waits for d and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
