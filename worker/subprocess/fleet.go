package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"leat/internal/childproc"
	"leat/internal/terminal"
	"leat/worker"
)

// lastWait is how long Stop waits after SIGKILL if its ctx is done: the kernel takes milliseconds
// unless the process waits for a disk or a server.
const lastWait = time.Second

// fleet is a group of children that were started together.
type fleet struct {
	kind      Options
	o         worker.StartOptions
	slots     int
	children  []*child // complete when start has returned
	stopping  atomic.Bool
	startDone chan struct{} // closed when the start has succeeded or failed
	watchers  sync.WaitGroup
	// closed when all children and all goroutines have ended, except for one blocked in
	// Options.Output
	ended chan struct{}
}

func newFleet(kind Options, o worker.StartOptions) *fleet {
	f := &fleet{kind: kind, o: o, slots: kind.Slots, startDone: make(chan struct{}), ended: make(chan struct{})}
	if f.slots == 0 {
		f.slots = max(1, runtime.GOMAXPROCS(0)/max(o.Total, o.Workers))
	}
	return f
}

// start starts all children from one goroutine that keeps its thread until they have ended: Linux
// binds a child's death signal to the thread that started it, and Go may end other threads.
func (f *fleet) start(ctx context.Context) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		restore := childproc.StartBatch()
		err := f.startAll(ctx)
		restore()
		if err != nil {
			f.stopping.Store(true)
			if f.o.OnStartError != nil {
				f.o.OnStartError(err)
			}
			f.signal(syscall.SIGKILL)
		}
		close(f.startDone)
		if err == nil {
			started <- nil
		}
		f.watchers.Wait()
		runtime.UnlockOSThread()
		close(f.ended)
		started <- err
	}()
	return <-started
}

func (f *fleet) startAll(ctx context.Context) error {
	for i := range f.o.Workers {
		name := worker.WorkerName(launcherName, f.o.First+i)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("starting %s: %w", name, context.Cause(ctx))
		}
		if err := f.startOne(name); err != nil {
			return fmt.Errorf("starting %s: %w", name, err)
		}
	}
	return nil
}

func (f *fleet) startOne(name string) error {
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close() // the child has a copy
		}
	}()
	for range connections {
		file, err := f.o.Connect()
		if err != nil {
			return fmt.Errorf("creating connections: %w", err)
		}
		files = append(files, file)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("creating output pipe: %w", err)
	}
	files = append(files, write)
	cmd := &exec.Cmd{
		Path:        f.o.Command[0],
		Args:        f.o.Command,
		Env:         f.environment(name),
		ExtraFiles:  append(files[:connections:connections], f.kind.Files...),
		Stdout:      write,
		Stderr:      write,
		SysProcAttr: childproc.Attributes(),
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, read.Close())
	}
	c := &child{name: name, cmd: cmd, out: newOutput(read, f.sink(name))}
	f.children = append(f.children, c)
	f.watchers.Go(func() { f.watch(c) })
	return nil
}

func (f *fleet) environment(name string) []string {
	var env []string
	for _, e := range os.Environ() {
		if n, _, _ := strings.Cut(e, "="); !isReserved(n) {
			env = append(env, e)
		}
	}
	env = append(env, f.kind.Env...)
	fds := make([]string, connections)
	for i := range fds {
		fds[i] = strconv.Itoa(3 + i)
	}
	return append(env,
		worker.EnvEndpoint+"=fds:"+strings.Join(fds, ","),
		worker.EnvName+"="+name,
		worker.EnvSlots+"="+strconv.Itoa(f.slots))
}

// sink returns the function that receives a worker's lines, or nil.
func (f *fleet) sink(name string) func(line string) {
	switch {
	case f.kind.Output != nil:
		return func(line string) {
			// the owner of the writer handles its errors; the worker must not fail
			_, _ = fmt.Fprintf(f.kind.Output, "%s: %s\n", name, terminal.Text(line))
		}
	case f.o.Logger != nil:
		logger := f.o.Logger.With("worker", name)
		return func(line string) { logger.Info(line) }
	}
	return nil
}

// watch waits for a child's end and reports it.
func (f *fleet) watch(c *child) {
	err := c.wait()
	<-f.startDone // OnExit is not called after a failed start
	if f.stopping.Load() || f.o.OnExit == nil {
		return
	}
	f.o.OnExit(worker.Exit{Name: c.name, Job: c.job(), Err: err, Log: c.out.end()})
}

func (f *fleet) signal(s syscall.Signal) {
	for _, c := range f.children {
		c.signal(s)
	}
}

// Jobs returns "process 4711" or "processes 4711 4712".
func (f *fleet) Jobs() string {
	pids := make([]string, len(f.children))
	for i, c := range f.children {
		pids[i] = strconv.Itoa(c.cmd.Process.Pid)
	}
	if len(pids) == 1 {
		return "process " + pids[0]
	}
	return "processes " + strings.Join(pids, " ")
}

// Stop sends SIGTERM to the workers' process groups, then SIGKILL after the grace period or when
// ctx is done, and waits for all workers. It returns an error after another second if the kernel
// has not ended a process. OnExit must not call it.
func (f *fleet) Stop(ctx context.Context) error {
	f.stopping.Store(true)
	f.signal(syscall.SIGTERM)
	f.signal(syscall.SIGCONT) // a suspended process handles SIGTERM only after SIGCONT
	grace := time.NewTimer(f.kind.Grace)
	defer grace.Stop()
	select {
	case <-f.ended:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	f.signal(syscall.SIGKILL)
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
	}
	last := time.NewTimer(lastWait)
	defer last.Stop()
	select {
	case <-f.ended:
		return nil
	case <-last.C:
	}
	var errs []error
	for _, c := range f.children {
		if !c.isGone() {
			errs = append(errs, fmt.Errorf("%s (%s) has not ended after SIGKILL", c.name, c.job()))
		}
	}
	if errs == nil {
		errs = append(errs, errors.New("all workers have ended, but a write to Output does not return"))
	}
	return errors.Join(errs...)
}
