package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// RunOptions say how Run starts workers.
type RunOptions struct {
	// Workers are started; with Single, one for each block.
	Workers int
	// Command, Run, Folder and Invitation are those of StartOptions.
	Command    []string
	Run        string
	Folder     string
	Invitation Invitation
	Logger     *slog.Logger // nil: nothing is logged
	// StopWithin bounds the stopping of the workers on every exit; 0: 5 s.
	StopWithin time.Duration
}

const defaultStopWithin = 5 * time.Second

// Run starts workers of a kind, waits for the channel's end, and stops the workers, however it ends: when ctx ends too. After the last block it waits for the
// workers to close and leave, for Times.Farewell and half of StopWithin at most. It returns what Channel.Wait does, or the Failure of a worker that could not close in that
// time; errors of
// starting and stopping are told with it, in the order in which they came: as a StopError when all blocks are done. The channel is the caller's to close. In Single mode it starts another worker for
// each block whose worker was lost.
func Run(ctx context.Context, c *Channel, kind Kind, o RunOptions) error {
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
	if c.o.Single {
		c.mu.Lock()
		c.starting = true
		c.mu.Unlock()
	}
	if err := r.start(ctx, o.Workers); err != nil {
		c.end(err)
		return r.stop(c.result())
	}
	var more sync.WaitGroup
	done := make(chan struct{})
	more.Go(func() { r.startMore(ctx, done) })
	err := c.Wait(ctx)
	close(done)
	cancel(errors.New("worker: the run has ended")) // of a Start under way
	more.Wait()
	if err == nil {
		c.farewell(min(c.times.Farewell, o.StopWithin/2))
	}
	return r.stop(c.result()) // with what came since
}

func (o *RunOptions) check(c *Channel, kind Kind) error {
	f := kind.Facts()
	switch {
	case o.Workers < 1:
		return errors.New("worker: Workers are less than 1")
	case len(o.Command) == 0:
		return errors.New("worker: Command is empty")
	case o.Run == "":
		return errors.New("worker: Run is empty: jobs of this run could not be told from those of others")
	case !f.Local && o.Invitation.IsZero():
		return fmt.Errorf("worker: workers of kind %s need an Invitation: the channel has to Listen", kind.Name())
	case c.o.Single && !f.Single:
		return fmt.Errorf("worker: workers of kind %s can't be started for one block each", kind.Name())
	case f.SharedFolder && o.Folder == "":
		return fmt.Errorf("worker: workers of kind %s need a folder that they can reach", kind.Name())
	case !isName(kind.Name()):
		return fmt.Errorf("worker: %q can't be the name of a kind", kind.Name())
	}
	return nil
}

type run struct {
	c      *Channel
	kind   Kind
	o      RunOptions
	cancel context.CancelCauseFunc
	fleets []Fleet
	next   int
	late   error // of a start that the end of the run came before
}

func (r *run) start(ctx context.Context, n int) error {
	o := StartOptions{
		Workers: n, First: r.next, Command: r.o.Command, Run: r.o.Run, Folder: r.o.Folder, Gone: r.c.Gone, Logger: r.o.Logger,
	}
	if r.kind.Facts().Local {
		o.Connect = r.c.Connect
	} else {
		o.Invitation = r.o.Invitation
	}
	var failed error
	fail := func(err error) error {
		if failed == nil {
			failed = fmt.Errorf("worker: %d workers of kind %s could not be started: %w", n, r.kind.Name(), err)
		}
		return failed
	}
	o.Failed = func(err error) {
		if ctx.Err() == nil {
			r.c.end(fail(err))
		}
	}
	r.c.expect(r.kind.Name(), r.next, n)
	r.next += n
	f, err := r.kind.Start(ctx, o)
	if err != nil {
		return fail(err)
	}
	r.fleets = append(r.fleets, f)
	r.o.Logger.Info("workers were started", "kind", r.kind.Name(), "workers", n, "jobs", f.Jobs())
	return nil
}

// startMore starts workers for blocks whose workers were lost, as long as the run lasts.
func (r *run) startMore(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-r.c.more:
		}
		r.c.mu.Lock()
		n := r.c.wanting()
		r.c.mu.Unlock()
		if n < 1 {
			continue
		}
		if err := r.start(ctx, n); err != nil {
			switch {
			case ctx.Err() == nil:
				r.c.end(err)
			case !saysOnly(err, context.Cause(ctx)):
				r.late = err
			}
			return
		}
	}
}

// saysOnly tells that err has no other root than the end of a context.
func saysOnly(err, cause error) bool {
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		if e := u.Unwrap(); e != nil {
			return saysOnly(e, cause)
		}
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(u.Unwrap(), func(e error) bool { return !saysOnly(e, cause) })
	}
	return err == cause || err == context.Canceled
}

// stop stops all workers; what goes wrong comes after err.
func (r *run) stop(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.o.StopWithin)
	defer cancel()
	errs := make([]error, len(r.fleets))
	var all sync.WaitGroup
	for i, f := range r.fleets {
		all.Go(func() {
			if e := f.Stop(ctx); e != nil {
				errs[i] = &StopError{fmt.Errorf("worker: %s may not have ended: %w", f.Jobs(), e)}
			}
		})
	}
	all.Wait()
	errs = append([]error{r.late}, errs...)
	if with, ok := err.(*RunError); ok {
		return afterwards(with.Cause, append(with.After, errs...)...)
	}
	if all := afterwards(nil, errs...); err == nil && all != nil {
		return &StopError{all}
	}
	return afterwards(err, errs...)
}

// farewell waits a moment for workers to leave by themselves after the last block, so that their jobs end well, and errors of their closing are known.
func (c *Channel) farewell(longest time.Duration) {
	end := time.Now().Add(longest)
	for time.Now().Before(end) {
		c.mu.Lock()
		here := 0
		for _, m := range c.members {
			if m.state == StateJoined && m.conns > 0 {
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
