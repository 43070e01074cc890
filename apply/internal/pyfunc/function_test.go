package pyfunc

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/internal/pytest"
	"leat/internal/worker/client"
	"leat/ndarray"
	"leat/npy"
	"leat/worker/subprocess"
)

// openWorker makes a worker's part of a job without a run. The worker reads the input a, an array
// of 128 x 128 bytes in blocks of 64 x 64, and the function sets the outputs first and second.
func openWorker(t *testing.T, function string) client.Handler {
	t.Helper()
	python := pytest.Python(t, "numpy")
	dir := t.TempDir()
	header := npy.Header{Shape: []int{128, 128}, Elem: npy.ElemOfDType(ndarray.Uint8)}
	file, err := header.Append(nil, 64)
	if err != nil {
		t.Fatal(err)
	}
	path, source := filepath.Join(dir, "a.npy"), filepath.Join(dir, "f.py")
	if err := os.WriteFile(path, append(file, make([]byte, 128*128)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, []byte(function), 0o600); err != nil {
		t.Fatal(err)
	}
	output := func(name string) jobspec.Output {
		return jobspec.Output{Path: filepath.Join(dir, name+".tif"), TileSize: 64}
	}
	values := &jobspec.Job{Inputs: map[string]jobspec.Input{"a": {Files: []string{path}}},
		Outputs:  map[string]jobspec.Output{"first": output("first"), "second": output("second")},
		Function: jobspec.Function{Defined: true, Name: "f"}, BudgetBytes: 1 << 30,
		Controls:    jobspec.Controls{WindowWidth: 64, WindowHeight: 64},
		Concurrency: jobspec.Concurrency{On: subprocess.New(nil), Workers: 1, Reading: jobspec.ReadByWorkers}}
	job, err := resolve.Resolve(t.Context(), values, resolve.Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Inputs.Close()
	p, err := plan.New(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := exec.NewSpec(values, p, job.Inputs, job.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	there, err := resolve.Restore(t.Context(), spec, values.Function, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Spec{File: source, Name: "f", Directory: dir, Executable: python},
		Options{Output: t.Output()})
	w, err := exec.OpenWorker(t.Context(), spec, there, f.Exec(there),
		client.JoinInfo{Worker: "a", Workers: 1, Slots: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The process of a canceled block is killed. The next one gets output memory of its own.
func TestBlockAfterCanceledBlock(t *testing.T) {
	w := openWorker(t, `
import time

def f(b):
    if b.number == 1:
        time.sleep(1000)
    b.first = b.a
    b.second = b.a
`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for n, ctx := range []context.Context{t.Context(), ended, t.Context()} {
		d, err := w.Read(t.Context(), client.Lease{Block: n})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Compute(ctx, 0, d); (err == nil) != (n != 1) {
			t.Errorf("block %d: %v", n, err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Error(err)
	}
}

// An answer that comes when the call has been canceled does not count, since the connection is
// closed.
func TestAnswerToCanceledCall(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 300 {
		here, there, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		text := []byte(`{"type": "closed"}`)
		answer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
		if _, err := there.Write(answer); err != nil {
			t.Fatal(err)
		}
		c := &conn{UnixConn: here}
		if _, err := c.call(ended, closeMessage{Type: "close"}, "closed"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := there.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
