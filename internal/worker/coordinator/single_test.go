package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"leat/worker"
)

func TestOneBlockWorkerEndsWhenSuperseded(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.Workers, o.OneBlockPerJob = 2, true
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	first, die := make(chan struct{}), make(chan struct{})
	d.plain = func(name string) *plain {
		return &plain{onCompute: func(ctx context.Context, block int) error {
			switch {
			case name == "extra":
				<-ctx.Done()
				return ctx.Err()
			case name != "double-0" && name != "double-1":
			case block == 0:
				<-first
			default:
				<-die
				c.Exited(worker.Exit{Name: name, Err: errors.New("its node failed")})
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test timed out"))
	defer cancel()
	go func() { ended <- Run(ctx, c, d, runOptions(2)) }()
	until(t, "both blocks at work", func() bool { return c.Status().Held == 2 })
	extra := startWorker(t, environmentOf(t, c, "tls", "extra"), d.plain("extra"))
	until(t, "a copy", func() bool { return c.Status().Copies == 1 })
	close(first)
	if err := extra.wait(); err != nil && c.Status().Copies == 1 {
		t.Error(err)
	}
	close(die)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	k.check(t, 2)
}

// calledOff is a launcher whose start is cancelled, and which may leave a job behind.
type calledOff struct {
	*doubles
	cancel context.CancelCauseFunc
	left   string
}

func (d calledOff) Start(ctx context.Context, _ worker.StartOptions) (worker.Fleet, error) {
	d.cancel(errors.New("the run has ended"))
	err := fmt.Errorf("called off: %w", context.Cause(ctx))
	if d.left != "" {
		err = errors.Join(err, errors.New(d.left))
	}
	return nil, err
}

func TestCanceledStartReportsRemains(t *testing.T) {
	for _, left := range []string{"", "job 17 may be left"} {
		o := testOptions(1, newTaken())
		o.OneBlockPerJob = true
		c := newTestCoordinator(t, o)
		c.mu.Lock()
		c.announced, c.starting = true, true
		c.mu.Unlock()
		ctx, cancel := context.WithCancelCause(t.Context())
		r := &run{c: c, kind: calledOff{newDoubles(t), cancel, left}, o: runOptions(1), cancel: cancel}
		c.more <- struct{}{}
		r.startMore(ctx, nil)
		err := r.stop(errors.New("the cause"))
		if !strings.HasPrefix(err.Error(), "the cause") || strings.Contains(err.Error(),
			"job 17") != (left != "") || left == "" && err.Error() != "the cause" {
			t.Errorf("%q: %v", left, err)
		}
	}
}
