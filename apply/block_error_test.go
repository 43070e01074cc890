package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/internal/exec"
	"leat/apply/outcome"
	"leat/worker"
	"leat/worker/subprocess"
)

var errKnown = errors.New("the gauge is dry")

func init() {
	testFunctions["block errors"] = Function{
		Func: func(_ context.Context, b *Block) error {
			if b.Number == 3 {
				if err := failure(b.Params().(string), ""); err != nil {
					return err
				}
			}
			b.SetOut("out", b.In("red"))
			return nil
		},
		Setup:  func(context.Context, WorkerInfo) (any, error) { return nil, nil },
		Params: Gob[string](),
		Errors: []error{errors.New("another"), errKnown},
	}
	for _, stage := range []string{"setup", "closing"} {
		for _, how := range []string{"error", "panic"} {
			f := testFunctions["block errors"]
			if stage == "setup" {
				f.Setup = func(context.Context, WorkerInfo) (any, error) { return nil, failure(how, "") }
			} else {
				f.Close = func(any) (any, error) { return nil, failure(how, "") }
			}
			testFunctions["block errors in "+stage+": "+how] = f
		}
	}
}

// failure fails in the given way.
func failure(how, path string) error {
	switch how {
	case "error":
		return fmt.Errorf("reading the gauge: %w", errKnown)
	case "panic":
		panic(fmt.Errorf("reading the gauge: %w", errKnown))
	case "missing file":
		_, err := os.ReadFile(path)
		return err
	}
	return nil
}

// TestBlockErrorInAnyProcess compares an error in a goroutine of the run with one in
// another process.
func TestBlockErrorInAnyProcess(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, function, params, stage, text string
		is                                  error
		panics                              bool
	}{
		{"error", "block errors", "error", "computing", "reading the gauge: the gauge is dry", errKnown, false},
		{"panic", "block errors", "panic", "computing", "the function panicked: reading the gauge: the gauge is dry",
			errKnown, true},
		{"missing file", "block errors", "missing file", "computing", "no such file", fs.ErrNotExist, false},
		{"error of Setup", "block errors in setup: error", "", "setup", "setting up worker 1: reading", errKnown,
			false},
		{"panic of Setup", "block errors in setup: panic", "", "setup", "setting up worker 1: Setup panicked: reading",
			errKnown, true},
		{"error of Close", "block errors in closing: error", "", "closing", "closing worker 1: reading", errKnown,
			false},
		{"panic of Close", "block errors in closing: panic", "", "closing", "closing worker 1: Close panicked: reading",
			errKnown, true},
	} {
		for where, concurrency := range map[string]Concurrency{
			"here":            {Workers: 1},
			"subprocess":      {On: subprocess.New(nil), Workers: 1},
			"reading workers": {On: subprocess.New(nil), Workers: 1, Reading: ReadByWorkers},
		} {
			t.Run(c.name+", "+where, func(t *testing.T) {
				job := remoteJob(t, c.function)
				job.Params, job.Concurrency = c.params, concurrency
				_, err := Run(t.Context(), job)
				var e *outcome.BlockError
				if !errors.As(err, &e) {
					t.Fatalf("%T: %v", err, err)
				}
				block := -1
				if c.stage == "computing" {
					block = 3
				}
				if e.Block != block || e.Window.Empty() != (block < 0) || e.Stage != c.stage || e.Worker == "" ||
					e.Host != host {
					t.Errorf("%+v", e)
				}
				if block < 0 && strings.Contains(err.Error(), "block 0") {
					t.Errorf("%v: no block is the cause", err)
				}
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("%q is not in %q", c.text, err)
				}
				if !errors.Is(err, c.is) || errors.Is(err, context.Canceled) || errors.Is(err,
					testFunctions["block errors"].Errors[0]) {
					t.Errorf("it wraps another error: %#v", err)
				}
				var p *outcome.PanicError
				if errors.As(err, &p) != c.panics || (len(e.Stack) > 0) != c.panics || c.panics &&
					!strings.Contains(string(e.Stack), "block_error_test.go") {
					t.Errorf("panic %v, stack %q", p, e.Stack)
				}
				if p != nil && !strings.HasPrefix(fmt.Sprint(p.Value), "reading the gauge") {
					t.Errorf("the panic is %q", p.Value)
				}
				if f := new(worker.Failure); errors.As(err, &f) != (where != "here") {
					t.Errorf("a Failure of a worker: %v", f)
				}
			})
		}
	}
}

func TestReadErrorInAnyProcess(t *testing.T) {
	t.Parallel()
	for where, concurrency := range map[string]Concurrency{
		"here":            {Workers: 1},
		"reading workers": {On: subprocess.New(nil), Workers: 1, Reading: ReadByWorkers},
	} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, "a.tif"), mapGrid(256, 256, 0, 0), terrain[uint8](256, 256, 3),
				func(o *Output) { o.Compression = "deflate" })
			damageTile(t, path)
			job := Job{Inputs: map[string]Input{"a": File(path)}, Expressions: map[string]string{"out": "a"},
				Outputs:     map[string]Output{"out": {Path: filepath.Join(dir, "out.tif"), TileSize: 64}},
				Controls:    Controls{WindowWidth: 64, WindowHeight: 64},
				Concurrency: concurrency}
			_, err := Run(t.Context(), job)
			var e *outcome.BlockError
			if !errors.As(err, &e) || e.Stage != "reading" || e.Block < 0 || e.Window.Empty() ||
				!strings.Contains(err.Error(), "a.tif") {
				t.Errorf("%v: %+v", err, e)
			}
		})
	}
}

// damageTile overwrites the data of a tile in the middle of a raster.
func damageTile(t *testing.T, path string) {
	t.Helper()
	b := fileBytes(t, path)
	for i := len(b) / 2; i < len(b)/2+200; i++ {
		b[i] ^= 0x5a
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTooManyFunctionErrors(t *testing.T) {
	job := remoteJob(t, "many")
	job.Functions = Functions{"many": {Func: func(context.Context, *Block) error { return nil },
		Errors: make([]error, exec.MaxErrors+1)}}
	err := failRun(t, job, "49 errors", "at most 48")
	if !errors.As(err, new(*outcome.JobError)) {
		t.Errorf("%T", err)
	}
}
