package apply

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/raster"
	"leat/worker"
	"leat/worker/subprocess"
)

var errHeron = errors.New("a heron")

func init() {
	testFunctions["Setup panics"] = Function{Func: emitsOne, Emits: Gob[int](),
		Setup: func(context.Context, WorkerInfo) (any, error) { panic(errHeron) }}
	testFunctions["Close panics"] = Function{Func: emitsOne, Emits: Gob[int](),
		Close: func(any) (any, error) { panic(errHeron) }}
	testFunctions["emits one"] = Function{Func: emitsOne, Emits: Gob[int]()}
}

func emitsOne(_ context.Context, b *Block) error {
	b.SetOut("out", b.In("red"))
	b.Emit(1)
	return nil
}

// hooked are the functions of a job other than Func, and the run's errors when they fail.
var hooked = map[string]struct {
	set  func(*Job, func())
	says string
}{
	"Setup": {func(j *Job, f func()) {
		j.Setup = func(context.Context, WorkerInfo) (any, error) { f(); return nil, nil }
	}, "setting up worker 1: Setup panicked: "},
	"Close": {func(j *Job, f func()) { j.Close = func(any) (any, error) { f(); return nil, nil } },
		"closing worker 1: Close panicked: "},
	"Merge": {func(j *Job, f func()) { j.Merge = func(int, any) error { f(); return nil } },
		"merging block 0: Merge panicked: "},
	"BeforeClose": {func(j *Job, f func()) {
		o := j.Outputs["out"]
		o.BeforeClose = func(*raster.Info) error { f(); return nil }
		j.Outputs["out"] = o
	}, "output out: before closing: BeforeClose panicked: "},
}

// goexit is the value of the PanicError of a function that ended its goroutine.
const goexit = "it ended its goroutine (runtime.Goexit)"

func TestHookPanic(t *testing.T) {
	for name, hook := range hooked {
		for how, fail := range map[string]func(){"a heron": func() { panic(errHeron) }, goexit: runtime.Goexit} {
			t.Run(name+", "+how, func(t *testing.T) {
				job := remoteJob(t, "")
				job.Functions, job.Func = nil, emitsOne
				job.Concurrency.Workers = 1
				job.Merge = func(int, any) error { return nil }
				hook.set(&job, fail)
				done := make(chan error, 1)
				go func() {
					err := errors.New("Run did not return")
					defer func() { done <- err }() // even if its goroutine was ended
					_, err = Run(context.Background(), job)
				}()
				err := <-done
				p := new(outcome.PanicError)
				if !errors.As(err, &p) || p.Of != name || !strings.Contains(err.Error(),
					p.Error()) || !strings.Contains(err.Error(), how) {
					t.Fatalf("%v", err)
				}
				if how != goexit && (!strings.HasPrefix(err.Error(),
					hook.says+how) || !strings.Contains(string(p.Stack), "hooks_test.go")) {
					t.Errorf("%v\n%s", err, p.Stack)
				}
				noTracesBut(t, err, filepath.Dir(job.Outputs["out"].Path), job.Outputs)
			})
		}
	}
}

func TestHookPanicInWorkerProcess(t *testing.T) {
	t.Parallel()
	for name, hook := range hooked {
		t.Run(name, func(t *testing.T) {
			function := name + " panics"
			if testFunctions[function].Func == nil {
				function = "emits one"
			}
			job := remoteJob(t, function)
			job.Concurrency = Concurrency{On: subprocess.New(nil), Workers: 1}
			job.Merge = func(int, any) error { return nil }
			if function == "emits one" {
				hook.set(&job, func() { panic(errHeron) })
			}
			_, err := Run(t.Context(), job)
			if err == nil || !strings.Contains(err.Error(), hook.says+"a heron") {
				t.Errorf("%v", err)
			}
			if f := new(worker.Failure); function != "emits one" && (!errors.As(err, &f) || !strings.Contains(f.Stack,
				"hooks_test.go")) {
				t.Errorf("%+v", f)
			}
		})
	}
}
