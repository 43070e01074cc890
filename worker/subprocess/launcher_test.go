package subprocess

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leat/internal/proctest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

// patience is how long anything is waited for before a test fails.
const patience = 30 * time.Second

var ctxForever = context.Background()

// run are workers of a test, which are stopped at its end.
type run struct {
	*connector
	fleet worker.Fleet
}

func start(t *testing.T, o Options, workers int, change ...func(*worker.StartOptions)) *run {
	t.Helper()
	r := &run{connector: &connector{}}
	o.Env = append(o.Env, "LEAT_PROCTEST=worker")
	so := r.options(workers)
	for _, c := range change {
		c(&so)
	}
	f, err := New(&o).Start(t.Context(), so)
	if err != nil {
		t.Fatal(err)
	}
	r.fleet = f
	t.Cleanup(func() {
		if err := f.Stop(ctxForever); err != nil {
			t.Error(err)
		}
		r.close()
	})
	return r
}

func (r *run) meet(t *testing.T, i int) (hello, *talk) {
	t.Helper()
	h, talk, err := r.hello(i)
	if err != nil {
		t.Fatal(err)
	}
	return h, talk
}

func (r *run) exit(t *testing.T) worker.Exit {
	t.Helper()
	select {
	case e := <-r.gone:
		return e
	case <-time.After(patience):
		t.Fatal("OnExit is not called")
		return worker.Exit{}
	}
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); workertest.Alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d goes on", pid)
		}
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkerEnvironment(t *testing.T) {
	t.Setenv("LEAT_WORKER_FILE", "/of/another/run")
	t.Setenv("TEST_INHERITED", "yes")
	r := start(t, Options{Slots: 3, Env: []string{"TEST_MORE=a=b"}}, 2, func(o *worker.StartOptions) { o.First = 5 })
	for i := range 2 {
		h, _ := r.meet(t, i)
		if want := worker.WorkerName("subprocess", 5+i); h.Name != want {
			t.Errorf("name %q, expected %q", h.Name, want)
		}
		if h.Env["LEAT_WORKER"] != "fds:3,4,5" || h.Env["LEAT_WORKER_SLOTS"] != "3" || h.Env["TEST_MORE"] != "a=b" ||
			h.Env["TEST_INHERITED"] != "yes" {
			t.Errorf("environment: %v", h.Env)
		}
		if v, ok := h.Env["LEAT_WORKER_FILE"]; ok {
			t.Errorf("LEAT_WORKER_FILE=%s of the parent was handed on", v)
		}
		if h.Stdin != 0 {
			t.Errorf("%d bytes on standard input", h.Stdin)
		}
		if h.Group != h.Pid {
			t.Errorf("process %d is in group %d: ^C would reach it", h.Pid, h.Group)
		}
		if len(h.Args) != 2 || h.Args[1] != "worker" {
			t.Errorf("arguments: %q", h.Args)
		}
		if !strings.Contains(r.fleet.Jobs(), itoa(h.Pid)) {
			t.Errorf("Jobs is %q, without %d", r.fleet.Jobs(), h.Pid)
		}
	}
}

func TestInheritedConnections(t *testing.T) {
	r := start(t, Options{}, 1)
	_, talk := r.meet(t, 0)
	if len(r.ends) != connections {
		t.Fatalf("%d connections", len(r.ends))
	}
	try(t, talk.tell("exit 0"))
	if e := r.exit(t); e.Err != nil {
		t.Fatal(e.Err)
	}
	for i, c := range r.ends { // the child had the only other end of each
		try(t, c.SetReadDeadline(time.Now().Add(patience)))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("connection %d has not ended with the worker: %v", i, err)
		}
	}
}

func TestSlotsPerWorker(t *testing.T) {
	procs := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(procs)
	for workers, want := range map[int]string{1: "4", 2: "2", 3: "1", 6: "1"} {
		r := start(t, Options{}, workers)
		if h, _ := r.meet(t, workers-1); h.Env["LEAT_WORKER_SLOTS"] != want {
			t.Errorf("%d workers: %s slots, expected %s", workers, h.Env["LEAT_WORKER_SLOTS"], want)
		}
		try(t, r.fleet.Stop(t.Context()))
	}
}

func TestExitTexts(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(h hello, talk *talk) error
		want string
	}{
		"well":          {func(_ hello, talk *talk) error { return talk.tell("exit 0") }, ""},
		"with a status": {func(_ hello, talk *talk) error { return talk.tell("exit 2") }, "exit status 2"},
		"killed": {func(h hello, _ *talk) error { return syscall.Kill(h.Pid, syscall.SIGKILL) },
			"killed by SIGKILL"},
		"by another signal": {func(h hello, _ *talk) error { return syscall.Kill(h.Pid, syscall.SIGTERM) },
			"killed by SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Options{}, 2)
			h, talk := r.meet(t, 0)
			other, _ := r.meet(t, 1)
			try(t, talk.do("print to output"))
			try(t, talk.do("complain to error"))
			try(t, c.end(h, talk))
			e := r.exit(t)
			got := ""
			if e.Err != nil {
				got = e.Err.Error()
			}
			if got != c.want || e.Name != h.Name || e.Job != "process "+itoa(h.Pid) || e.Log != "to output\nto error" {
				t.Errorf("%+v, expected %q", e, c.want)
			}
			if workertest.Alive(h.Pid) || !workertest.Alive(other.Pid) {
				t.Errorf("the worker lives: %v, the other: %v", workertest.Alive(h.Pid), workertest.Alive(other.Pid))
			}
		})
	}
}

func TestStopLeavesNothing(t *testing.T) {
	r := start(t, Options{}, 3)
	var pids []int
	for i := range 3 {
		h, _ := r.meet(t, i)
		pids = append(pids, h.Pid)
	}
	var all sync.WaitGroup
	for range 2 { // it may be called several times, at once too
		all.Go(func() {
			if err := r.fleet.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	try(t, r.fleet.Stop(t.Context()))
	for _, p := range pids {
		if err := syscall.Kill(p, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d exists: %v", p, err)
		}
	}
	select {
	case e := <-r.gone:
		t.Errorf("OnExit was called with %+v", e)
	default:
	}
}

func TestStopWorkerIgnoringSIGTERM(t *testing.T) {
	for name, ctx := range map[string]func() (context.Context, context.CancelFunc){
		"after the grace": func() (context.Context,
			context.CancelFunc) {
			return context.WithCancel(ctxForever)
		},
		"when ctx is over before": func() (context.Context,
			context.CancelFunc) {
			return context.WithTimeout(ctxForever, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Env: []string{"TEST_IGNORE_TERM=1"}, Grace: 50 * time.Millisecond}
			ctx, cancel := ctx()
			defer cancel()
			if ctx.Err() != nil {
				o.Grace = time.Hour
			}
			r := start(t, o, 1)
			h, talk := r.meet(t, 0)
			try(t, talk.wait("ignoring"))
			try(t, r.fleet.Stop(ctx))
			if workertest.Alive(h.Pid) {
				t.Error("it lives")
			}
		})
	}
}

func TestStopSuspendedWorker(t *testing.T) {
	r := start(t, Options{Grace: time.Hour}, 1)
	h, _ := r.meet(t, 0)
	try(t, syscall.Kill(h.Pid, syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	try(t, r.fleet.Stop(ctx))
	if ctx.Err() != nil {
		t.Error("only SIGKILL ended it")
	}
}

func TestGrandchildrenEndWithWorker(t *testing.T) {
	for name, end := range map[string]func(r *run, h hello, talk *talk) error{
		"that ends well": func(_ *run, _ hello, talk *talk) error { return talk.tell("exit 0") },
		"that is killed": func(_ *run, h hello, _ *talk) error { return syscall.Kill(h.Pid, syscall.SIGKILL) },
		"that is stopped": func(r *run, _ hello, _ *talk) error {
			return r.fleet.Stop(ctxForever)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Options{Env: []string{"TEST_GRANDCHILD=1"}}, 1)
			h, talk := r.meet(t, 0)
			if !workertest.Alive(h.Grandchild) {
				t.Fatal("there is no grandchild")
			}
			try(t, end(r, h, talk))
			waitGone(t, h.Grandchild)
		})
	}
}

func TestDetachedProcessHoldingOutput(t *testing.T) {
	r := start(t, Options{Env: []string{"TEST_GRANDCHILD=away"}}, 1)
	h, talk := r.meet(t, 0)
	defer func() {
		try(t, syscall.Kill(h.Grandchild, syscall.SIGKILL))
	}()
	try(t, talk.do("print last words"))
	try(t, talk.tell("exit 3"))
	if e := r.exit(t); e.Err == nil || e.Err.Error() != "exit status 3" || e.Log != "last words" {
		t.Errorf("%+v", e)
	}
	if !workertest.Alive(h.Grandchild) {
		t.Error("the grandchild is gone: nothing was tested")
	}
}

func TestWorkersEndWithParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no death signal on " + runtime.GOOS)
	}
	out := filepath.Join(t.TempDir(), "pids")
	parent := proctest.New("parent", out).Start(t)
	var pids []int
	for end := time.Now().Add(patience); len(pids) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the parent does not start its workers")
		}
		pids = readPids(out)
	}
	for _, p := range pids {
		if !workertest.Alive(p) {
			t.Fatalf("worker %d does not live", p)
		}
		defer func() { _ = syscall.Kill(p, syscall.SIGKILL) }() // if the test fails
	}
	parent.Kill()
	if killed, output, err := parent.Wait(); !killed {
		t.Fatal(output, err)
	}
	for _, p := range pids {
		waitGone(t, p)
	}
}

// The death signal of a child comes when the thread that started it ends, and threads of Go end:
// that of a goroutine which is locked to it does with it.
func TestWorkersSurviveThreadExit(t *testing.T) {
	r := &run{connector: &connector{}}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		var err error
		r.fleet, err = New(&Options{Env: []string{"LEAT_PROCTEST=worker"}}).Start(t.Context(), r.options(2))
		failed <- err
	}()
	try(t, <-failed)
	defer r.close()
	_, talk := r.meet(t, 1)
	// All threads that have nothing to do are taken, and ended.
	var taken, ending sync.WaitGroup
	const threads = 100
	taken.Add(threads)
	for range threads {
		ending.Go(func() {
			runtime.LockOSThread()
			taken.Done()
			taken.Wait()
		})
	}
	ending.Wait()
	for range 20 {
		time.Sleep(5 * time.Millisecond) // threads are ending
		try(t, talk.do("print alive"))
	}
	select {
	case e := <-r.gone:
		t.Errorf("%+v", e)
	default:
	}
	try(t, r.fleet.Stop(t.Context()))
}

func TestMissingProgram(t *testing.T) {
	c := &connector{}
	defer c.close()
	o := c.options(2)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	try(t, os.WriteFile(plain, []byte("text"), 0o600))
	for _, path := range []string{filepath.Join(dir, "nothing"), plain} {
		o.Command = []string{path}
		_, err := New(nil).Start(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(),
			worker.WorkerName(launcherName, 0)) {
			t.Errorf("%v", err)
		}
	}
}

func TestPartialStartLeavesNoWorker(t *testing.T) {
	c := &connector{}
	defer c.close()
	o := c.options(3)
	n := 0
	sorry := errors.New("no more connections")
	o.Connect = func() (*os.File, error) {
		if n++; n > connections+1 {
			return nil, sorry
		}
		return c.connect()
	}
	var reported error
	o.OnStartError = func(err error) {
		reported = err
		if n := len(childrenOf(t)); n != 1 {
			t.Errorf("%d workers run when OnStartError is called", n)
		}
	}
	_, err := New(&Options{Env: []string{"LEAT_PROCTEST=worker"}}).Start(t.Context(), o)
	if reported != err {
		t.Errorf("OnStartError was called with %v", reported)
	}
	if !errors.Is(err, sorry) || !strings.Contains(err.Error(), worker.WorkerName(launcherName, 1)) {
		t.Fatal(err)
	}
	for i, conn := range c.ends {
		try(t, conn.SetReadDeadline(time.Now().Add(patience)))
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("somebody has the other end of connection %d: %v", i, err)
		}
	}
	if got := childrenOf(t); len(got) != 0 {
		t.Errorf("children are left: %v", got)
	}
	select {
	case e := <-c.gone:
		t.Errorf("OnExit was called with %+v", e)
	default:
	}
}

func TestOpenFilesLimit(t *testing.T) {
	for _, limit := range []syscall.Errno{syscall.EMFILE, syscall.EAGAIN} {
		c := &connector{}
		o := c.options(1)
		o.Connect = func() (*os.File, error) { return nil, os.NewSyscallError("socketpair", limit) }
		if _, err := New(nil).Start(t.Context(), o); !errors.Is(err, limit) {
			t.Errorf("%v", err)
		}
	}
}

func TestCanceledStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &connector{}
	defer c.close()
	if _, err := New(nil).Start(ctx, c.options(2)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(c.ends) != 0 {
		t.Errorf("%d connections were made", len(c.ends))
	}
}

func TestInvalidOptions(t *testing.T) {
	k := New(&Options{Files: []*os.File{nil}, Env: []string{"plain", "LEAT_WORKER_NAME=x"}, Slots: -1,
		Grace: -time.Second})
	err := k.Check(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Files[0]", `Env[0] is "plain"`, "LEAT_WORKER_NAME", "Slots is -1", "Grace is -1s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	_, err = k.Start(t.Context(), worker.StartOptions{Command: []string{"leat"}})
	for _, want := range []string{"Slots is -1", "Workers is 0", "Command is", "Connect is nil"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	if err := New(nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOutputLines(t *testing.T) {
	var got pieces
	r := start(t, Options{Output: &got}, 2)
	for i := range 2 {
		h, talk := r.meet(t, i)
		try(t, talk.do("print of "+h.Name))
	}
	try(t, r.fleet.Stop(t.Context()))
	for i := range 2 {
		name := worker.WorkerName(launcherName, i)
		if want := name + ": of " + name + "\n"; !got.has(want) {
			t.Errorf("%q is not in %q", want, got.all)
		}
	}
}

func TestOutputControlCharacters(t *testing.T) {
	var got pieces
	r := start(t, Options{Output: &got}, 1)
	h, talk := r.meet(t, 0)
	try(t, talk.do("print \x1b]0;title\x07 \x1b[2J"))
	try(t, r.fleet.Stop(t.Context()))
	if want := h.Name + `: \x1b]0;title\a \x1b[2J` + "\n"; !got.has(want) {
		t.Errorf("%q is not in %q", want, got.all)
	}
}

func TestOutputFlood(t *testing.T) {
	var got counter
	r := start(t, Options{Output: &got}, 1)
	_, talk := r.meet(t, 0)
	const lines = 100_000
	try(t, talk.do("flood "+itoa(lines)))
	try(t, talk.tell("exit 1"))
	e := r.exit(t)
	if len(e.Log) > tailBytes || len(e.Log) < tailBytes/2 || !strings.HasPrefix(e.Log, "y") || !strings.HasSuffix(e.Log,
		"x") {
		t.Errorf("the log has %d bytes: %.20q ... ", len(e.Log), e.Log)
	}
	try(t, r.fleet.Stop(t.Context()))
	if got != lines {
		t.Errorf("%d lines of %d were passed on", got, lines)
	}
}

func TestStopWithBlockedOutput(t *testing.T) {
	in, out := net.Pipe() // nobody reads yet
	r := start(t, Options{Output: out}, 1)
	_, talk := r.meet(t, 0)
	try(t, talk.tell("print stuck"))
	try(t, talk.wait("done print"))
	try(t, r.fleet.Stop(t.Context()))
	// What holds it up is let go, for no goroutine is left then.
	try(t, errors.Join(in.Close(), out.Close()))
}

// pieces keeps what was written in one call of Write.
type pieces struct{ all []string }

func (p *pieces) Write(b []byte) (int, error) {
	p.all = append(p.all, string(b))
	return len(b), nil
}

func (p *pieces) has(s string) bool {
	for _, x := range p.all {
		if x == s {
			return true
		}
	}
	return false
}

type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c++
	return len(b), nil
}
