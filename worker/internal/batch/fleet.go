package batch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"leat/worker"
)

// System handles the jobs of one fleet. Its methods are what differs between batch systems. Query
// is called until Stop begins, and Cancel from then on; calls do not overlap.
type System interface {
	// Jobs names the jobs for messages: "job 17".
	Jobs() string
	// Query returns the workers that have ended since the last query and how many are left.
	Query(ctx context.Context) (ended []worker.Exit, left int, err error)
	// Cancel makes the system end the jobs, unless that has succeeded before, and returns what is
	// left. It is called until nothing is left and its error is nil.
	Cancel(ctx context.Context) (Left, error)
	// Commands returns the shell lines that end what is left: "scancel 17".
	Commands() []string
	// Cleanup removes files of the fleet, and is called at the end of Stop.
	Cleanup() error
}

// Left is what a fleet has left in its system.
type Left int

const (
	Nothing Left = iota
	Ending       // the system has accepted to end all jobs, or all workers have ended
	Running      // jobs that may not end
)

// Fleet watches the jobs of a System and stops them.
type Fleet struct {
	system System
	o      *worker.StartOptions
	pace   Pace
	grace  time.Duration

	stopping sync.Mutex         // serializes Stop
	cancel   context.CancelFunc // ends the watching; nil: not watching
	watching sync.WaitGroup
}

// NewFleet returns a fleet, which watches nothing before Watch. It sets the defaults of o. grace is
// the time that a Stop may take whose ctx has ended.
func NewFleet(s System, o *worker.StartOptions, pace Pace, grace time.Duration) *Fleet {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnExit == nil {
		o.OnExit = func(worker.Exit) {}
	}
	return &Fleet{system: s, o: o, pace: pace, grace: grace}
}

// Watch starts to query the jobs, until all workers have ended or Stop is called.
func (f *Fleet) Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.watching.Go(func() { f.watch(ctx) })
}

// watch calls OnExit for each worker that has ended and OnQuery after each query. Errors end no
// worker: the system may be busy or restarting. The first of several in a row is logged.
func (f *Fleet) watch(ctx context.Context) {
	failed := false
	for wait := f.pace.First; Sleep(ctx, wait); wait = f.pace.Next(wait) {
		ended, left, err := f.system.Query(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			f.o.Logger.Warn("job query failed", "jobs", f.system.Jobs(), "error", err)
		}
		failed = err != nil
		if f.o.OnQuery != nil {
			f.o.OnQuery(err)
		}
		for _, e := range ended {
			f.o.OnExit(e)
		}
		if left == 0 && err == nil {
			return
		}
		if len(ended) > 0 {
			wait = f.pace.First
		}
	}
}

// Stop cancels the jobs until none is left or ctx ends; then it suffices that the system has
// accepted to end all of them. If ctx has ended already, it tries everything once, for a few
// seconds at most.
func (f *Fleet) Stop(ctx context.Context) error {
	f.stopping.Lock()
	defer f.stopping.Unlock()
	if f.cancel != nil {
		f.cancel()
		f.watching.Wait()
	}
	// Files are removed last: a job that is just starting would report that its secret is missing.
	return errors.Join(f.end(ctx), f.system.Cleanup())
}

func (f *Fleet) end(ctx context.Context) error {
	// A program in progress may finish after ctx is canceled, but not after ctx's deadline.
	extended, stop := Extend(ctx, f.grace)
	defer stop()
	if d, ok := ctx.Deadline(); ok && ctx.Err() == nil {
		extended, stop = context.WithDeadline(extended, d)
		defer stop()
	}
	for wait := f.pace.First / 2; ; wait = f.pace.Next(wait) {
		left, err := f.system.Cancel(extended)
		if left == Nothing && err == nil {
			return nil
		}
		if ctx.Err() == nil && Sleep(ctx, wait) {
			continue
		}
		switch left {
		case Running:
			return errors.Join(&worker.LeftError{What: f.system.Jobs(), Commands: f.system.Commands(),
				Err: context.Cause(ctx)}, err)
		case Ending:
			f.o.Logger.Info("jobs still ending", "jobs", f.system.Jobs())
		}
		return err
	}
}
