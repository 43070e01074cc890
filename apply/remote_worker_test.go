package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/worker"
	"leat/worker/subprocess"
)

var errModel = errors.New("the model could not be closed")

func init() {
	same := func(_ context.Context, b *Block) error {
		b.SetOut("out", b.In("red"))
		return nil
	}
	setup := func(ctx context.Context, _ WorkerInfo) (any, error) { return ctx, nil }
	testFunctions["uses the context of Setup"] = Function{Setup: setup,
		Func: func(ctx context.Context, b *Block) error {
			if err := b.State().(context.Context).Err(); err != nil {
				return fmt.Errorf("the context that Setup got: %w", err)
			}
			return same(ctx, b)
		},
		Close: func(state any) error { return state.(context.Context).Err() },
	}
	testFunctions["closes with an error"] = Function{Func: same, Setup: setup,
		Close: func(any) error { return errModel }}
	testFunctions["closes with a panic"] = Function{Func: same, Setup: setup,
		Close: func(any) error { panic(errModel) }}
}

func remoteJob(t *testing.T, function string) Job {
	return Job{Inputs: map[string]Input{"red": File(filepath.Join(resumeInputs(t), "red.tif"))}, Function: function,
		Functions: testFunctions,
		Outputs:   map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif"), TileSize: 64}},
		Controls:  Controls{WindowWidth: 64, WindowHeight: 64}}
}

func TestSetupContextInWorkerProcess(t *testing.T) {
	for _, c := range []Concurrency{{Workers: 2}, {On: subprocess.New(nil), Workers: 2},
		{On: subprocess.New(nil), Workers: 2, Reading: ReadByWorkers}} {
		job := remoteJob(t, "uses the context of Setup")
		job.Concurrency = c
		if _, err := Run(t.Context(), job); err != nil {
			t.Errorf("in other processes: %v: %v", c.On != nil, err)
		}
	}
}

func TestCloseErrorInWorkerProcess(t *testing.T) {
	for _, how := range []string{"closes with an error", "closes with a panic"} {
		job := remoteJob(t, how)
		job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 2}
		_, err := Run(t.Context(), job)
		if err == nil || !strings.Contains(err.Error(), "closing worker") || !strings.Contains(err.Error(),
			errModel.Error()) {
			t.Errorf("it %s: %v", how, err)
		}
		var f *worker.Failure
		if errors.As(err, &f); f == nil || f.Block != -1 || (f.Stack == "") == strings.Contains(how, "panic") {
			t.Errorf("it %s: %+v", how, f)
		}
	}
}

// openRemoteWorker makes a worker's part of a job without a run.
func openRemoteWorker(t *testing.T, function string) *remoteWorker {
	t.Helper()
	job := remoteJob(t, function)
	job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 1, Reading: ReadByWorkers}
	r, err := prepare(t.Context(), &job)
	if err != nil {
		t.Fatal(err)
	}
	defer r.in.Close()
	r.startWriters()
	e, err := r.spec()
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newRemoteWorker(t.Context(), &WorkOptions{Functions: testFunctions},
		client.JoinInfo{Worker: "a", Workers: 1, Slots: 1, Job: text})
	if err != nil {
		t.Fatal(err)
	}
	return c.(*remoteWorker)
}

func TestRemoteWorkerDiscard(t *testing.T) {
	w := openRemoteWorker(t, "spoils")
	defer func() {
		if err := w.Close(); err != nil {
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
	if n, free := len(w.stages), w.buffers.Free(); n != 0 || free != 2*len(w.slots)+1 {
		t.Errorf("stages of %d blocks are kept; %d buffers are free", n, free)
	}
}

// A state that was made for a canceled block is not used for others: its context has ended.
func TestSetupRepeatedAfterCancel(t *testing.T) {
	w := openRemoteWorker(t, "closes with an error")
	ended, cancel := context.WithCancel(t.Context())
	setups := 0
	setup := w.run.job.Setup
	w.run.job.Setup = func(ctx context.Context, i WorkerInfo) (any, error) {
		if setups++; setups == 1 {
			cancel()
			<-ctx.Done()
		}
		return setup(ctx, i)
	}
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
	if err := w.Close(); err == nil || strings.Count(err.Error(), errModel.Error()) != 2 || state.Err() == nil {
		t.Errorf("closing two states: %v; the context of the last: %v", err, state.Err())
	}
}
