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
	"leat/apply/internal/plan/plantest"
	"leat/apply/internal/resolve"
	"leat/internal/childproc"
	"leat/internal/pytest"
	"leat/internal/worker/client"
)

// openWorker makes a worker's part of a job without a run. The worker reads the input a, an array
// of 128 x 128 bytes in blocks of 64 x 64, and the function sets the outputs first and second.
func openWorker(t *testing.T, function string) client.Handler {
	t.Helper()
	python := pytest.Python(t, "numpy")
	dir := t.TempDir()
	source := filepath.Join(dir, "f.py")
	if err := os.WriteFile(source, []byte(function), 0o600); err != nil {
		t.Fatal(err)
	}
	job := plantest.New(t, "f", "first", "second")
	spec, err := exec.NewSpec(job.Values, job.Plan, job.Inputs, job.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	there, err := resolve.Restore(t.Context(), spec, job.Values.Function, nil, nil)
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
		here, there, err := childproc.SocketPair("function")
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
