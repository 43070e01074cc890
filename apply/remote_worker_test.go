package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

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
		Close: func(state any) (any, error) { return nil, state.(context.Context).Err() },
	}
	testFunctions["closes with an error"] = Function{Func: same, Setup: setup,
		Close: func(any) (any, error) { return nil, errModel }}
	testFunctions["closes with a panic"] = Function{Func: same, Setup: setup,
		Close: func(any) (any, error) { panic(errModel) }}
}

func remoteJob(t *testing.T, function string) Job {
	return Job{Inputs: map[string]Input{"red": File(filepath.Join(resumeInputs(t), "red.tif"))}, Function: function,
		Functions: testFunctions,
		Outputs:   map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif"), TileSize: 64}},
		Controls:  Controls{WindowWidth: 64, WindowHeight: 64}}
}

func TestSetupContextInWorkerProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []Concurrency{{Workers: 2}, {On: subprocess.New(nil), Workers: 2},
		{On: subprocess.New(nil), Workers: 2, Reading: ReadByWorkers}} {
		job := remoteJob(t, "uses the context of Setup")
		job.Concurrency = c
		if _, err := Run(t.Context(), job); err != nil {
			t.Errorf("in other processes: %v: %v", c.On != nil, err)
		}
	}
}

func TestTimingsOfWorkerProcess(t *testing.T) {
	for _, reading := range []Reading{ReadHere, ReadByWorkers} {
		job := remoteJob(t, "emits one")
		job.Merge = func(int, any) error { return nil }
		job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 2, Reading: reading}
		res := mustRun(t, job)
		for _, stage := range []string{"reading", "computing", "encoding"} {
			if n := res.Timings.Stage(stage).N; n < int64(res.Blocks) {
				t.Errorf("reading %v: %d intervals of %s for %d blocks", reading, n, stage, res.Blocks)
			}
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
