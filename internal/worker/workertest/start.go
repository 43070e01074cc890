package workertest

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/worker/runerror"
	"leat/worker"
)

// Patience is much longer than anything in these tests takes: only a failing test waits that long.
const Patience = time.Minute

// Endpoint is an endpoint for workers under test, which never connect to it.
var Endpoint = worker.Endpoint{
	Addresses: []string{"127.0.0.1:4711"},
	Pin:       "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	Token:     "this-is-the-secret-token-of-the-run",
}

// Start starts workers under test and records their exits.
type Start struct {
	Options worker.StartOptions

	t    testing.TB
	mu   sync.Mutex
	gone map[string]worker.Exit
	more chan struct{}
}

// NewStart prepares n workers that run a line of shell.
func NewStart(t testing.TB, n int, shell string) *Start {
	s := &Start{t: t, gone: map[string]worker.Exit{}, more: make(chan struct{}, 20000)}
	s.Options = worker.StartOptions{
		Workers: n, Command: []string{"/bin/sh", "-c", shell}, RunID: "test-1", Endpoint: Endpoint,
		OnExit: func(e worker.Exit) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, twice := s.gone[e.Name]; twice {
				t.Errorf("%s has exited twice", e.Name)
			}
			s.gone[e.Name] = e
			s.more <- struct{}{}
		},
	}
	return s
}

// Start starts the workers; they are stopped when the test ends.
func (s *Start) Start(l worker.Launcher) worker.Fleet {
	s.t.Helper()
	f, err := l.Start(s.t.Context(), s.Options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.Stop(f) })
	return f
}

// Stop stops the workers; an error fails the test.
func (s *Start) Stop(f worker.Fleet) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	if err := f.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

// Await waits for n more exits and returns all exits by the workers' names.
func (s *Start) Await(n int) map[string]worker.Exit {
	s.t.Helper()
	late := time.After(Patience)
	for range n {
		select {
		case <-s.more:
		case <-late:
			s.t.Fatalf("%d workers have exited, expected %d", len(s.Exits()), n)
		}
	}
	return s.Exits()
}

// Exits returns the exits so far.
func (s *Start) Exits() map[string]worker.Exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.gone)
}

// Eventually waits until holds returns true.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// WantError checks that an error contains all parts.
func WantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v, expected one with %q", err, p)
		}
	}
}

// WantCommands fails the test unless the LeftErrors of err have commands with each part.
func WantCommands(t testing.TB, err error, parts ...string) {
	t.Helper()
	var commands []string
	for _, left := range runerror.LeftErrors(err) {
		commands = append(commands, left.Commands...)
	}
	text := strings.Join(commands, "\n")
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("the commands of %v are %q, expected one with %q", err, commands, p)
		}
	}
}

// Within returns what do returns, which must not take long.
func Within(t testing.TB, what string, do func() error) error {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- do() }()
	select {
	case err := <-end:
		return err
	case <-time.After(Patience):
		t.Fatalf("%s has not returned after %v", what, Patience)
		return nil
	}
}
