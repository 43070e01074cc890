//go:build !nocloud

package awsbatch

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/batchtest"
	"leat/internal/worker/workertest"
)

// deafen lets all calls hang, from the first that is asked for on, until the returned function is
// called.
func (r *run) deafen(from func(operation string) bool) (hear func()) {
	free := make(chan struct{})
	var deaf atomic.Bool
	r.s.Set(func(set *batchtest.Settings) {
		set.Before = func(operation string) *batchtest.Error {
			if deaf.Load() || from(operation) {
				deaf.Store(true)
				<-free
			}
			return nil
		}
	})
	return func() {
		r.s.Set(func(set *batchtest.Settings) { set.Before = nil })
		close(free)
	}
}

func TestCanceledStartWithHangingAWS(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 4, "exec sleep 600")
	r.kind.maxArray = 2
	r.kind.o.Definition, r.kind.o.Image = "", "image"
	r.kind.times.answer, r.kind.times.grace, r.kind.times.clean = 50*time.Millisecond, 200*time.Millisecond, time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	submissions := 0
	hear := r.deafen(func(operation string) bool {
		if operation != "SubmitJob" {
			return false
		}
		if submissions++; submissions == 2 {
			cancel(errors.New("enough"))
		}
		return submissions == 2
	})
	defer hear()
	err := workertest.Within(t, "Start", func() error {
		_, err := r.kind.Start(ctx, r.Options)
		return err
	})
	workertest.WantError(t, err, "not all workers submitted: enough", "may be left")
	workertest.WantCommands(t, err, "aws batch list-jobs --region eu-test-1", "values=leat-test-1-2-",
		"aws batch terminate-job --region eu-test-1", "--job-id 00000001",
		"aws batch deregister-job-definition --region eu-test-1")
}

func TestStopTimeoutWithHangingAWS(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 2, "exec sleep 600")
	r.kind.o.Definition, r.kind.o.Image = "", "image"
	r.kind.times.grace = time.Hour
	f := r.start()
	hear := r.deafen(func(string) bool { return true })
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	err := workertest.Within(t, "Stop", func() error { return f.Stop(ctx) })
	hear()
	workertest.WantError(t, err, "may be left")
	workertest.WantCommands(t, err, "aws batch terminate-job", "aws batch deregister-job-definition")
	r.Stop(f)
	if left := append(r.s.Left(), r.s.Definitions()...); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestUnlistedChildrenEndWithArray(t *testing.T) {
	for shell, want := range map[string]string{"exit 0": "", "exit 3": "failed without an exit status"} {
		r := newRun(t, batchtest.Settings{Forgetful: true}, 3, shell)
		f := r.start()
		for name, e := range r.Await(3) {
			if want == "" && e.Err != nil {
				t.Errorf("%s: %v", name, e.Err)
			}
			if want != "" {
				workertest.WantError(t, e.Err, want)
			}
			if !strings.HasPrefix(e.Job, "job 00000001-") {
				t.Errorf("%s is %s", name, e.Job)
			}
		}
		r.Stop(f)
	}
}

// Somebody else's job, which another run has under the number of a worker, must not be ended.
func TestLostSubmissionFoundByName(t *testing.T) {
	r := newRun(t, batchtest.Settings{}, 2, "exec sleep 600")
	r.start()
	r.s.Set(func(set *batchtest.Settings) {
		set.Before = func(operation string) *batchtest.Error {
			if operation == "SubmitJob" {
				return batchtest.Broken
			}
			return nil
		}
	})
	_, err := r.kind.Start(t.Context(), r.Options)
	workertest.WantError(t, err, "submitting a job of 2 workers", "may be left")
	workertest.WantCommands(t, err, "aws batch list-jobs")
	if n := len(r.s.Left()); n == 0 {
		t.Error("the first start's jobs were ended")
	}
	r.Options.RunID = ""
	_, err = r.kind.Start(t.Context(), r.Options)
	workertest.WantError(t, err, `RunID is ""`)
}
