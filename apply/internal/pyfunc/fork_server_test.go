package pyfunc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leat/internal/pytest"
)

// lineWriter collects what processes print.
type lineWriter struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *lineWriter) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Fields(w.text.String())
}

// newFunction returns the function f of a source.
func newFunction(t *testing.T, source string, out *lineWriter) *Function {
	t.Helper()
	python, path := pytest.Python(t, "numpy"), filepath.Join(t.TempDir(), "f.py")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return New(Spec{File: path, Name: "f", Executable: python}, Options{Output: out})
}

func startProcess(t *testing.T, f *Function) *process {
	t.Helper()
	p, _, err := f.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// server returns the fork server of a function, nil if there is none.
func server(f *Function) *forkServer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server
}

const randomSource = `
import os, random
import numpy as np
print(os.getppid(), np.random.random(), random.random())

def f(b):
    pass
`

// Processes are children of one fork server, which ends with the last of them. Each has its own
// random numbers.
func TestForkedProcesses(t *testing.T) {
	if !canAwaitForked() {
		t.Skip("the kernel has no pidfd_open")
	}
	var out lineWriter
	f := newFunction(t, randomSource, &out)
	first, second := startProcess(t, f), startProcess(t, f)
	s := server(f)
	first.end()
	if server(f) != s {
		t.Error("the fork server ended before its last process")
	}
	second.end()
	if server(f) != nil || s.process.how != nil {
		t.Errorf("the fork server did not end with its last process, or by %v", s.process.how)
	}
	if !s.process.hasEnded() {
		t.Error("the fork server has not ended")
	}
	for _, p := range []*process{first, second} {
		if p.how != nil {
			t.Errorf("a process ended: %v", p.how)
		}
	}
	l := out.lines()
	if len(l) != 6 || l[0] != l[3] || l[1] == l[4] || l[2] == l[5] {
		t.Errorf("parents and random numbers %v, expected one parent and different numbers", l)
	}
	third := startProcess(t, f)
	third.kill()
	<-third.exited
	if third.how == nil || third.how.Error() != "killed by SIGKILL" || server(f) != nil {
		t.Errorf("a killed process ended: %v", third.how)
	}
}

// Processes end with their fork server. Later ones have another.
func TestKilledForkServer(t *testing.T) {
	if !canAwaitForked() {
		t.Skip("the kernel has no pidfd_open")
	}
	var out lineWriter
	f := newFunction(t, "def f(b):\n    pass\n", &out)
	p := startProcess(t, f)
	if err := syscall.Kill(server(f).process.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	_, err := p.conn.call(t.Context(), closeMessage{Type: "close"}, "closed")
	if !errors.As(err, new(*EndedError)) || !strings.HasSuffix(err.Error(), "its fork server ended: killed by SIGKILL") {
		t.Errorf("a call after the end of the fork server: %v", err)
	}
	startProcess(t, f).end()
}

// A fork server that does not answer is killed, with its processes. Later ones have another.
func TestStoppedForkServer(t *testing.T) {
	if !canAwaitForked() {
		t.Skip("the kernel has no pidfd_open")
	}
	var out lineWriter
	f := newFunction(t, "def f(b):\n    pass\n", &out)
	p := startProcess(t, f)
	s := server(f)
	s.limit = 10 * time.Millisecond
	if err := syscall.Kill(s.process.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.start(t.Context()); !errors.As(err, new(*EndedError)) {
		t.Errorf("starting a process: %v", err)
	}
	<-p.exited
	if !s.process.hasEnded() {
		t.Error("the fork server has not ended")
	}
	startProcess(t, f).end()
}

// Where Python has threads before the function is loaded, each process is a new interpreter.
func TestProcessesThatCanNotBeForked(t *testing.T) {
	site := t.TempDir()
	thread := "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
	if err := os.WriteFile(filepath.Join(site, "sitecustomize.py"), []byte(thread), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PYTHONPATH", site)
	var out lineWriter
	f := newFunction(t, randomSource, &out)
	first, second := startProcess(t, f), startProcess(t, f)
	first.end()
	second.end()
	if !f.alone || server(f) != nil {
		t.Error("the processes are forked")
	}
	if l := out.lines(); len(l) != 6 || l[1] == l[4] {
		t.Errorf("parents and random numbers %v", l)
	}
}
