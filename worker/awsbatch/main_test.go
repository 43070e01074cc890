package awsbatch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/worker/batchtest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestMain(m *testing.M) {
	workertest.Main(Fetch())
	goleak.VerifyTestMain(m)
}

// patience is far more than anything here takes; only a failing test waits for its end.
const patience = 30 * time.Second

var quick = times{first: 5 * time.Millisecond, longest: 40 * time.Millisecond, answer: patience, grace: patience,
	clean: patience, backoff: 10 * time.Millisecond}

var endpoint = worker.Endpoint{
	Addresses: []string{"127.0.0.1:4711"},
	Pin:       "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	Token:     "this-is-the-secret-token-of-the-run",
}

// run is a start under test.
type run struct {
	t    *testing.T
	s    *batchtest.Server
	kind *Launcher
	o    worker.StartOptions

	mu   sync.Mutex
	gone map[string]worker.Exit
	more chan struct{}
}

// options of a kind that uses the stand-in.
func options(s *batchtest.Server) Options {
	return Options{Queue: batchtest.Queue, Definition: batchtest.Definition,
		Secret: "secretsmanager:" + batchtest.Secret, Endpoint: s.URL}
}

// newRun prepares n workers that run a line of shell.
func newRun(t *testing.T, set batchtest.Settings, n int, shell string) *run {
	r := &run{t: t, s: batchtest.New(t, set), gone: map[string]worker.Exit{}, more: make(chan struct{}, 20000)}
	o := options(r.s)
	r.kind = New(&o)
	r.kind.times = quick
	r.o = worker.StartOptions{
		Workers: n, Command: []string{"/bin/sh", "-c", shell}, RunID: "test-1", Endpoint: endpoint,
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
	r.t.Helper()
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

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v, which should have in it: %s", err, p)
		}
	}
}
