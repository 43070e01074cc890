package slurm

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/worker"
)

// endpoint is one that workers of these tests are given and never follow.
var endpoint = worker.Endpoint{
	Addresses: []string{"127.0.0.1:9"},
	Pin:       "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	Token:     "a-token-that-nobody-may-see",
}

// log is a logger whose lines can be looked at.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// start is a run as seen by a launcher: the calls that it received.
type start struct {
	t     *testing.T
	o     worker.StartOptions
	fleet worker.Fleet
	log   log
	exits chan worker.Exit
}

// begin starts n workers that run a shell script with the run's directory as $1.
func begin(t *testing.T, k *launcher, n int, script string) *start {
	t.Helper()
	s := prepare(t, n, script)
	s.start(k)
	return s
}

// start starts the workers; they are stopped when the test ends.
func (s *start) start(k *launcher) {
	s.t.Helper()
	f, err := k.Start(s.t.Context(), s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.fleet = f
	s.t.Cleanup(s.stop)
}

func prepare(t *testing.T, n int, script string) *start {
	t.Helper()
	s := &start{t: t, exits: make(chan worker.Exit, 10000)}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.o = worker.StartOptions{
		Workers: n, Command: []string{"/bin/sh", "-c", script, "worker", dir}, RunID: "test", Endpoint: endpoint,
		Dir:    dir,
		OnExit: func(e worker.Exit) { s.exits <- e }, Logger: s.log.logger(),
	}
	return s
}

// stop stops the fleet; it fails the test when that fails.
func (s *start) stop() {
	s.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := s.fleet.Stop(ctx); err != nil {
		s.t.Errorf("Stop: %v", err)
	}
}

// gone waits for the word of n workers' ends, and returns them in the order of their names.
func (s *start) gone(n int) []worker.Exit {
	s.t.Helper()
	var all []worker.Exit
	limit := time.After(time.Minute)
	for len(all) < n {
		select {
		case e := <-s.exits:
			all = append(all, e)
		case <-limit:
			s.t.Fatalf("after a minute %d of %d workers are gone: %v\n%s", len(all), n, all, s.log.String())
		}
	}
	slices.SortFunc(all, func(a, b worker.Exit) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// await waits for a file with at least one line.
func await(t *testing.T, path string) string {
	t.Helper()
	for range 600 {
		if b, err := os.ReadFile(path); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return string(b)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s has not come within a minute", path)
	return ""
}

// onceThere calls a function as soon as a file has a line.
func onceThere(t *testing.T, path string, do func()) {
	go func() {
		for t.Context().Err() == nil {
			if b, err := os.ReadFile(path); err == nil && bytes.HasSuffix(b, []byte("\n")) {
				do()
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
}

// list are the names in a directory.
func list(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// quick is a kind with short times.
func quick(o *Options) *launcher {
	k := newLauncher(o)
	k.times = times{
		first: 20 * time.Millisecond, longest: 200 * time.Millisecond, command: 20 * time.Second,
		check: 20 * time.Second, answer: time.Second, grace: 20 * time.Second,
	}
	return k
}

func texts(exits []worker.Exit) string {
	var b strings.Builder
	for _, e := range exits {
		fmt.Fprintf(&b, "%s, %s: %v [%s]\n", e.Name, e.Job, e.Err, e.Log)
	}
	return b.String()
}
