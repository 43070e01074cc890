package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"leat/internal/worker/protocol"
	"leat/internal/worker/runerror"
	"leat/worker"
)

// RunOptions configures Run.
type RunOptions struct {
	// Workers is the number of workers to start; with OneBlockPerJob, one for each block.
	Workers int
	// Command, Run (as RunID), Dir and Endpoint are passed on in worker.StartOptions.
	Command  []string
	Run      string
	Dir      string
	Endpoint worker.Endpoint
	Logger   *slog.Logger // nil: nothing is logged
	// Replace is how many workers may be started within an hour in place of workers that were lost,
	// left early, or ended before joining; 0: as many as Workers, negative: none. A worker is not
	// replaced if one of its blocks was lost with three workers, nor before a first worker has
	// joined. With OneBlockPerJob a lost block always gets another worker.
	Replace int
	// StopWithin bounds the stopping of the workers on every exit; 0: 5 s.
	StopWithin time.Duration
}

const defaultStopWithin = 5 * time.Second

// Run starts workers, waits for the end of the run, and stops the workers, also when ctx ends.
// After the last block it waits for the values of workers (Options.MaxValue) without a time limit.
// It waits for other workers to close and leave for the shorter of Times.ShutdownGrace and half of
// StopWithin. It returns the error of Coordinator.Wait, or the *worker.Failure of a worker whose
// handler failed to close in that time. Errors of starting and stopping follow in order, or are a
// *runerror.StopError if all blocks are done. The caller closes c. With OneBlockPerJob, Run starts
// another worker for each block whose worker was lost; otherwise it replaces workers according to
// RunOptions.Replace. A run without workers waits while some that were started may still join.
func Run(ctx context.Context, c *Coordinator, kind worker.Launcher, o RunOptions) error {
	if err := o.check(c, kind); err != nil {
		return err
	}
	if o.StopWithin == 0 {
		o.StopWithin = defaultStopWithin
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{c: c, kind: kind, o: o, cancel: cancel}
	c.mu.Lock()
	c.starting = true
	switch {
	case c.o.OneBlockPerJob || o.Replace < 0:
	case o.Replace == 0:
		c.replace.most = o.Workers
	default:
		c.replace.most = o.Replace
	}
	c.mu.Unlock()
	if err := r.start(ctx, o.Workers); err != nil {
		c.end(err)
		return r.stop(c.result())
	}
	var more sync.WaitGroup
	done := make(chan struct{})
	more.Go(func() { r.startMore(ctx, done) })
	err := c.Wait(ctx)
	close(done)
	cancel(errors.New("the run has ended")) // ends a Start in progress
	more.Wait()
	if err == nil {
		c.waitForLeaves(min(c.times.ShutdownGrace, o.StopWithin/2))
	}
	return r.stop(c.result()) // includes errors after Wait
}

func (o *RunOptions) check(c *Coordinator, kind worker.Launcher) error {
	f := kind.Capabilities()
	switch {
	case o.Workers < 1:
		return errors.New("option Workers is less than 1")
	case len(o.Command) == 0:
		return errors.New("option Command is empty")
	case o.Run == "":
		return errors.New("Run is empty")
	case !f.Local && len(o.Endpoint.Addresses) == 0:
		return fmt.Errorf("launcher %s needs an Endpoint", kind.Name())
	case c.o.OneBlockPerJob && !f.OneBlockPerJob:
		return fmt.Errorf("launcher %s can't start workers for one block each", kind.Name())
	case f.SharedDir && o.Dir == "":
		return fmt.Errorf("launcher %s needs a shared directory", kind.Name())
	case !protocol.IsName(kind.Name()):
		return fmt.Errorf("%q is not a valid launcher name", kind.Name())
	}
	if c.o.OneBlockPerJob { // the batch system decides how many run at once
		return nil
	}
	if err := CheckDescriptors(f, o.Workers); err != nil {
		return err
	}
	return nil
}

type run struct {
	c       *Coordinator
	kind    worker.Launcher
	o       RunOptions
	cancel  context.CancelCauseFunc
	fleets  []worker.Fleet
	next    int
	lateErr error // of a start that the end of the run interrupted
}

// start starts n workers. If that fails, the run fails.
func (r *run) start(ctx context.Context, n int) error {
	var failed error
	fail := func(err error) error {
		if failed == nil {
			failed = fmt.Errorf("starting %d workers (%s): %w", n, r.kind.Name(), err)
		}
		return failed
	}
	if err := r.launch(ctx, n, r.c.expect(r.kind.Name(), r.next, n), func(err error) {
		if ctx.Err() == nil {
			r.c.end(fail(err))
		}
	}); err != nil {
		return fail(err)
	}
	return nil
}

// launch starts n workers, which the coordinator already expects.
func (r *run) launch(ctx context.Context, n int, st *start, failed func(error)) error {
	o := worker.StartOptions{
		Workers: n, First: r.next, Total: max(n, r.o.Workers), Command: r.o.Command, RunID: r.o.Run, Dir: r.o.Dir,
		OnExit: r.c.Exited, OnQuery: func(err error) { r.c.jobsQueried(st, err) }, OnStartError: failed,
		Logger: r.o.Logger,
	}
	if r.kind.Capabilities().Local {
		o.Connect = r.c.Connect
	} else {
		o.Endpoint = r.o.Endpoint
	}
	r.next += n
	f, err := r.kind.Start(ctx, o)
	if err != nil {
		return err
	}
	r.fleets = append(r.fleets, f)
	r.c.addJobs(f.Jobs())
	r.o.Logger.Info("workers started", "kind", r.kind.Name(), "workers", n, "jobs", f.Jobs())
	return nil
}

// startMore starts workers for blocks whose workers were lost, and replacements, until the run
// ends.
func (r *run) startMore(ctx context.Context, done <-chan struct{}) {
	pause := firstReplacePause
	for {
		select {
		case <-done:
			return
		case <-r.c.more:
		}
		var err error
		if r.c.o.OneBlockPerJob {
			r.c.mu.Lock()
			n := r.c.workersNeeded()
			r.c.mu.Unlock()
			if n < 1 {
				continue
			}
			err = r.start(ctx, n)
		} else if n, st := r.c.takeReplacements(r.kind.Name(), r.next, time.Now()); n > 0 {
			first := r.next
			if err = r.launch(ctx, n, st, nil); err != nil && ctx.Err() == nil {
				// The other workers continue. After a pause the replacements are tried again.
				r.o.Logger.Warn("replacing lost workers failed", "workers", n, "error", err)
				for i := first; i < first+n; i++ {
					r.c.Exited(worker.Exit{Name: worker.WorkerName(r.kind.Name(), i),
						Err: fmt.Errorf("could not be started: %w", err)})
				}
				select {
				case <-done:
				case <-time.After(pause):
				}
				pause = min(2*pause, lastReplacePause)
				continue
			}
			pause = firstReplacePause
		}
		if err != nil {
			switch {
			case ctx.Err() == nil:
				r.c.end(err)
			case !isOnly(err, context.Cause(ctx)):
				r.lateErr = err
			}
			return
		}
	}
}

// isOnly reports whether the end of a context is the only cause of err.
func isOnly(err, cause error) bool {
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		if e := u.Unwrap(); e != nil {
			return isOnly(e, cause)
		}
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(u.Unwrap(), func(e error) bool { return !isOnly(e, cause) })
	}
	return err == cause || err == context.Canceled
}

// stop stops all workers and adds the errors to err.
func (r *run) stop(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.o.StopWithin)
	defer cancel()
	errs := make([]error, len(r.fleets))
	var all sync.WaitGroup
	for i, f := range r.fleets {
		all.Go(func() {
			if e := f.Stop(ctx); e != nil {
				errs[i] = &runerror.StopError{Err: fmt.Errorf("%s may not have ended: %w", f.Jobs(), e)}
			}
		})
	}
	all.Wait()
	errs = append([]error{r.lateErr}, errs...)
	if with, ok := err.(*worker.RunError); ok {
		return runerror.Join(with.Cause, append(with.After, errs...)...)
	}
	if all := runerror.Join(nil, errs...); err == nil && all != nil {
		return &runerror.StopError{Err: all}
	}
	return runerror.Join(err, errs...)
}

// waitForLeaves waits for workers to leave after the last block, so that their jobs succeed and
// errors of closing are known.
func (c *Coordinator) waitForLeaves(longest time.Duration) {
	end := time.Now().Add(longest)
	for time.Now().Before(end) {
		c.mu.Lock()
		here := 0
		for _, m := range c.members {
			if m.state == worker.StateJoined && m.conns > 0 {
				here++
			}
		}
		c.mu.Unlock()
		if here == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
