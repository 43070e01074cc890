package exec

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"leat/apply/internal/plan"
	"leat/apply/internal/plan/plantest"
	"leat/apply/internal/resolve"
	"leat/internal/worker/client"
)

var errModel = errors.New("the model could not be closed")

// copies is a function that copies its input.
func copies(_ context.Context, b *Block) error {
	b.SetOut(0, b.In(0))
	return nil
}

// openWorker makes a worker's part of a job without a run. The worker reads the input.
func openWorker(t *testing.T, f Function) *remoteWorker {
	t.Helper()
	job := plantest.New(t, "copies", "out")
	log := slog.New(slog.DiscardHandler)
	spec, err := NewSpec(job.Values, job.Plan, job.Inputs, job.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	there, err := resolve.Restore(t.Context(), spec, job.Values.Function, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenWorker(t.Context(), spec, there, f, client.JoinInfo{Worker: "a", Workers: 1, Slots: 1}, log)
	if err != nil {
		t.Fatal(err)
	}
	return w.(*remoteWorker)
}

func TestRemoteWorkerDiscard(t *testing.T) {
	w := openWorker(t, Function{Compute: copies})
	defer func() {
		if _, err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 4 * len(w.slots) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // otherwise it would wait for ever
		d, err := w.Read(ctx, client.Lease{Block: n})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		w.Discard(d)
		if _, err := w.Read(ended, client.Lease{Block: n}); err == nil {
			t.Error("a block was read that was canceled")
		}
	}
	if n, free := len(w.stages), w.buffers.Free(); n != 0 || free != plan.BuffersEach(len(w.slots)) {
		t.Errorf("stages of %d blocks are kept; %d buffers are free", n, free)
	}
}

// A state that was made for a canceled block is not used for others: its context has ended.
func TestSetupRepeatedAfterCancel(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	setups := 0
	w := openWorker(t, Function{Compute: copies, Close: func(any) (any, error) { return nil, errModel },
		Setup: func(ctx context.Context, _ WorkerInfo) (any, error) {
			if setups++; setups == 1 {
				cancel()
				<-ctx.Done()
			}
			return ctx, nil
		}})
	for n, ctx := range []context.Context{ended, t.Context()} {
		d, err := w.Read(t.Context(), client.Lease{Block: n})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Compute(ctx, 0, d); (err == nil) != (n == 1) {
			t.Errorf("block %d: %v", n, err)
		}
	}
	state := w.slots[0].state.(context.Context)
	if setups != 2 || state.Err() != nil {
		t.Errorf("there were %d setups; the state's context: %v", setups, state.Err())
	}
	if _, err := w.Close(); err == nil || strings.Count(err.Error(), errModel.Error()) != 2 || state.Err() == nil {
		t.Errorf("closing two states: %v; the context of the last: %v", err, state.Err())
	}
}
