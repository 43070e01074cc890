package pbs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/worker/pbstest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestMain(m *testing.M) {
	pbstest.Main()
	workertest.Main()
	goleak.VerifyTestMain(m)
}

// patience is far more than anything here takes; only a failing test waits for its end.
const patience = 30 * time.Second

var quick = times{first: 5 * time.Millisecond, longest: 40 * time.Millisecond, command: patience, grace: patience}

var endpoint = worker.Endpoint{
	Addresses: []string{"127.0.0.1:4711"},
	Pin:       "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	Token:     "this-is-the-secret-token-of-the-run",
}

// run is a start under test.
type run struct {
	t      *testing.T
	kind   *Launcher
	o      worker.StartOptions
	folder string

	mu   sync.Mutex
	gone map[string]worker.Exit
	more chan struct{}
}

// newRun prepares n workers that run a line of shell.
func newRun(t *testing.T, o *Options, n int, shell string) *run {
	k := New(o)
	k.times = quick
	r := &run{t: t, kind: k, gone: map[string]worker.Exit{}, more: make(chan struct{}, 10000)}
	r.folder = filepath.Join(t.TempDir(), "shared folder")
	if err := os.Mkdir(r.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r.o = worker.StartOptions{
		Workers: n, Command: []string{"/bin/sh", "-c", shell}, RunID: "test-1", Endpoint: endpoint, Folder: r.folder,
		OnExit: func(e worker.Exit) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if _, twice := r.gone[e.Name]; twice {
				t.Errorf("%s has exited twice", e.Name)
			}
			r.gone[e.Name] = e
			r.more <- struct{}{}
		},
	}
	return r
}

func (r *run) start() worker.Fleet {
	r.t.Helper()
	f, err := r.kind.Start(r.t.Context(), r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.stop(f) })
	return f
}

func (r *run) stop(f worker.Fleet) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := f.Stop(ctx); err != nil {
		r.t.Error(err)
	}
}

// ends waits for n workers' ends.
func (r *run) ends(n int) map[string]worker.Exit {
	r.t.Helper()
	late := time.After(patience)
	for range n {
		select {
		case <-r.more:
		case <-late:
			r.t.Fatalf("%d workers have exited, expected %d", len(r.exited()), n)
		}
	}
	return r.exited()
}

func (r *run) exited() map[string]worker.Exit {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := map[string]worker.Exit{}
	for k, v := range r.gone {
		m[k] = v
	}
	return m
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// option returns the value of an option of qsub, and whether it is there.
func option(args []string, name string) (string, bool) {
	for i, a := range args {
		if a == name {
			if i+1 < len(args) {
				return args[i+1], true
			}
			return "", true
		}
	}
	return "", false
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v, which should have in it: %s", err, p)
		}
	}
}

func names(first, n int) (s []string) {
	for i := range n {
		s = append(s, worker.WorkerName(Name, first+i))
	}
	return s
}
