package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/worker"
)

func TestFailedReplacementEndsNoRun(t *testing.T) {
	k := newTaken()
	o := testOptions(20, k)
	o.Workers, o.Barrier = 2, time.Hour
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	d.facts.Local = true
	failed := make(chan struct{})
	d.plain = func(name string) *plain {
		return &plain{onCompute: func(ctx context.Context, block int) error {
			if name == "double-0" {
				d.mu.Lock()
				d.startErr = errors.New("the controller is down")
				d.mu.Unlock()
				c.Exited(worker.Exit{Name: name, Err: errors.New("killed")})
				<-ctx.Done()
				return ctx.Err()
			}
			select {
			case <-failed:
			case <-ctx.Done():
			}
			return ctx.Err()
		}}
	}
	go func() {
		defer close(failed)
		for {
			for _, w := range c.Status().Workers {
				if w.Name == "double-2" && w.State == worker.StateGone {
					return
				}
			}
			select {
			case <-c.over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	r := runOptions(2)
	r.Replace = 10
	if err := Run(t.Context(), c, d, r); err != nil {
		t.Fatal(err)
	}
	k.check(t, 20)
}

// newReplacing returns a coordinator for which Run has started this number of workers. One of them
// has joined and was lost.
func newReplacing(t *testing.T, workers, most int) *Coordinator {
	o := testOptions(1000, newTaken())
	o.Workers, o.Times.ExitReportWait = workers, time.Hour
	c := newTestCoordinator(t, o)
	c.starting, c.replace.most = true, most
	c.expect("raw", 0, workers)
	r := newRaw(t, c)
	r.join("raw-0")
	if len(r.lease(1)) != 1 {
		t.Fatal("no lease")
	}
	c.Exited(worker.Exit{Name: "raw-0", Err: errors.New("killed")})
	return c
}

func TestReplacementsPerHour(t *testing.T) {
	c := newReplacing(t, 4, 2)
	now := time.Now()
	c.Exited(worker.Exit{Name: "raw-1"})
	c.Exited(worker.Exit{Name: "raw-2"})
	for _, x := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {time.Minute, 0}, {replaceWindow - time.Second, 0}, {replaceWindow, 1}, {replaceWindow, 0}} {
		if n, _ := c.takeReplacements("raw", len(c.order), now.Add(x.after)); n != x.want {
			t.Errorf("after %v: %d, expected %d", x.after, n, x.want)
		}
	}
	if n := c.Status().ReplacedWorkers; n != 3 {
		t.Errorf("%d workers were replaced", n)
	}
	// Each exit counts once.
	c.Exited(worker.Exit{Name: "raw-1"})
	if c.replace.due != 0 {
		t.Errorf("%d replacements are due", c.replace.due)
	}
}

func TestIdleExitsLimitReplacements(t *testing.T) {
	c := newReplacing(t, 2, 1000)
	n := 0
	for ; n < 100; n++ {
		next := len(c.order)
		if n, _ := c.takeReplacements("raw", next, time.Now()); n == 0 {
			break
		}
		c.Exited(worker.Exit{Name: worker.WorkerName("raw", next), Err: errors.New("exit status 127")})
	}
	if want := defaultReissues + 1; n != want {
		t.Errorf("%d replacements, expected %d", n, want)
	}
}

func TestNoReplacementBeforeFirstJoin(t *testing.T) {
	o := testOptions(10, newTaken())
	o.Workers = 2
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	d.dies = func(string) bool { return true }
	r := runOptions(2)
	r.Replace = 10
	err := Run(t.Context(), c, d, r)
	if err == nil || !strings.Contains(err.Error(),
		"all 2 workers ended before they joined the run") || len(d.started) != 2 {
		t.Errorf("%v; started %v", err, d.started)
	}
}

func TestReplaceWorkerLostBeforeBarrier(t *testing.T) {
	for _, most := range []int{0, 1} {
		o := testOptions(10, newTaken())
		o.Workers, o.Barrier = 2, time.Hour
		c := newTestCoordinator(t, o)
		c.starting, c.replace.most = true, most
		c.expect("raw", 0, 2)
		newRaw(t, c).join("raw-0")
		c.Exited(worker.Exit{Name: "raw-0", Err: errors.New("killed")})
		n, _ := c.takeReplacements("raw", 2, time.Now())
		if ended := c.Status().Ended != ""; n != most || ended != (most == 0) {
			t.Errorf("%d replacements of %d; the run has ended: %v", n, most, ended)
		}
	}
}

func TestReplaceWorkersThatLeaveEarly(t *testing.T) {
	k := newTaken()
	o := testOptions(20, k)
	o.Workers = 1
	c := newTestCoordinator(t, o)
	d := newDoubles(t)
	d.facts.Local = true
	var left atomic.Bool
	d.plain = func(name string) *plain {
		return &plain{onCompute: func(ctx context.Context, block int) error {
			if block == 5 && left.CompareAndSwap(false, true) {
				d.mu.Lock()
				f := d.fleets[0]
				d.mu.Unlock()
				f.cancel() // as SIGTERM does
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
	}
	r := runOptions(1)
	r.Replace = 1
	if err := Run(t.Context(), c, d, r); err != nil {
		t.Fatal(err)
	}
	k.check(t, 20)
	if s := c.Status(); s.LostWorkers != 0 || s.ReplacedWorkers != 1 {
		t.Errorf("%d lost, %d replaced", s.LostWorkers, s.ReplacedWorkers)
	}
}

func TestUnknownJobsEndRunWithoutWorkers(t *testing.T) {
	o := testOptions(10, newTaken())
	o.Workers, o.Times.QueryFailureTimeout = 3, 10*time.Second
	c := newTestCoordinator(t, o)
	st := c.expect("raw", 0, 3)
	c.Exited(worker.Exit{Name: "raw-2", Err: errors.New("no such image")})
	denied := errors.New("access denied")
	now := time.Now()
	c.jobsQueried(st, denied)
	c.jobsQueried(st, nil)
	c.expireMembers(now.Add(time.Hour), 0)
	if s := c.Status(); s.Ended != "" {
		t.Fatal("the run ended although the last query succeeded")
	}
	c.jobsQueried(st, denied)
	c.expireMembers(now, 0)
	if s := c.Status(); s.Ended != "" {
		t.Fatal("the run ended at once")
	}
	c.expireMembers(now.Add(time.Minute), 0)
	err := waitRun(t, c)
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Block != -1 {
		t.Fatal(err)
	}
	for _, s := range []string{"no worker has joined the run",
		"the jobs of 2 workers that have not joined have been unknown for 10s", "access denied", "no such image"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in %v", s, err)
		}
	}
}
