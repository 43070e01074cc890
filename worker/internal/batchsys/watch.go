package batchsys

import (
	"context"
	"time"

	"leat/worker"
)

// Pace is how often jobs are looked at: the time before the first look grows by half from look to look, up to the longest.
type Pace struct{ First, Longest time.Duration }

// Next is the time after one of wait.
func (p Pace) Next(wait time.Duration) time.Duration { return min(wait*3/2, p.Longest) }

// Watch looks at jobs until all workers have ended or ctx has. look returns the workers that have ended since the last look and how many are left; gone is told of
// each. unknown is told of the first of several looks in a row that failed: a system that is busy or restarted is no reason to give workers up, which are
// heard of otherwise.
func (p Pace) Watch(ctx context.Context, look func(ctx context.Context) (ended []worker.Exit, left int, err error), gone func(worker.Exit), unknown func(error)) {
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
		for _, e := range ended {
			gone(e)
		}
		if left == 0 && err == nil {
			return
		}
		if len(ended) > 0 {
			wait = p.First
		}
	}
}

// Sleep returns false when ctx has ended.
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
