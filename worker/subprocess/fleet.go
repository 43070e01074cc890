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

	"leat/worker"
)

// lastWait is how long Stop waits after SIGKILL when its ctx is over already: the kernel takes milliseconds, but for a process that waits for a
// disk or a server that does not answer.
const lastWait = time.Second

// fleet are children that were started together.
type fleet struct {
	kind     Options
	o        worker.StartOptions
	slots    int
	children []*child // complete when start has returned
	stopping atomic.Bool
	settled  chan struct{} // closed when it is known whether all have started
	watchers sync.WaitGroup
	ended    chan struct{} // closed when all children are gone and all goroutines but the last line of one have ended
}

func newFleet(kind Options, o worker.StartOptions) *fleet {
	f := &fleet{kind: kind, o: o, slots: kind.Slots, settled: make(chan struct{}), ended: make(chan struct{})}
	if f.slots == 0 {
		f.slots = max(1, runtime.GOMAXPROCS(0)/o.Workers)
	}
	return f
}

// start starts all children from one goroutine, which keeps its thread until all of them are gone: Linux binds the death signal of a child to
// the thread that started it, not to the process, and Go ends threads as it likes.
func (f *fleet) start(ctx context.Context) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := f.startAll(ctx)
		if err != nil {
			f.stopping.Store(true)
			if f.o.Failed != nil {
				f.o.Failed(err)
			}
			f.signal(syscall.SIGKILL)
		}
		close(f.settled)
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
		name := worker.WorkerName(Name, f.o.First+i)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("subprocess: %s was not started: %w", name, context.Cause(ctx))
		}
		if err := f.startOne(name); err != nil {
			return fmt.Errorf("subprocess: %s can't be started: %w%s", name, err, remedy(err))
		}
	}
	return nil
}

// remedy is what can be done where more workers were asked for than this process may have.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return ": start fewer, or allow more open files (ulimit -n)"
	case errors.Is(err, syscall.EAGAIN):
		return ": start fewer, or allow more processes (ulimit -u)"
	}
	return ""
}

func (f *fleet) startOne(name string) error {
	var files []*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close() // the child has it
		}
	}()
	for range connections {
		file, err := f.o.Connect()
		if err != nil {
			return fmt.Errorf("its connections: %w", err)
		}
		files = append(files, file)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("its output: %w", err)
	}
	files = append(files, write)
	cmd := &exec.Cmd{
		Path:        f.o.Command[0],
		Args:        f.o.Command,
		Env:         f.environment(name),
		ExtraFiles:  append(files[:connections:connections], f.kind.Files...),
		Stdout:      write,
		Stderr:      write,
		SysProcAttr: attributes(),
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
		worker.EnvInvitation+"=fds:"+strings.Join(fds, ","),
		worker.EnvName+"="+name,
		worker.EnvSlots+"="+strconv.Itoa(f.slots))
}

// sink returns what takes the lines of a worker, nil when nobody does.
func (f *fleet) sink(name string) func(line string) {
	switch {
	case f.kind.Output != nil:
		return func(line string) {
			// Whoever gave the writer hears of its errors; a worker must not fail because of them.
			_, _ = fmt.Fprintf(f.kind.Output, "%s: %s\n", name, line)
		}
	case f.o.Logger != nil:
		logger := f.o.Logger.With("worker", name)
		return func(line string) { logger.Info(line) }
	}
	return nil
}

// watch waits for a child's end and tells of it.
func (f *fleet) watch(c *child) {
	err := c.wait()
	<-f.settled // of a start that failed nobody is told by Gone
	if f.stopping.Load() || f.o.Gone == nil {
		return
	}
	f.o.Gone(worker.Exit{Name: c.name, Job: c.job(), Err: err, Log: c.out.end()})
}

func (f *fleet) signal(s syscall.Signal) {
	for _, c := range f.children {
		c.signal(s)
	}
}

// Jobs names the processes: "process 4711", "processes 4711 4712".
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

// Stop sends SIGTERM to the workers and the processes they have started, SIGKILL after a grace or once ctx is over, and waits for all of them. It returns an
// error, after a second more, only when the kernel does not end a process. Gone must not call it.
func (f *fleet) Stop(ctx context.Context) error {
	f.stopping.Store(true)
	f.signal(syscall.SIGTERM)
	f.signal(syscall.SIGCONT) // a stopped process takes no other signal than SIGKILL
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
			errs = append(errs, fmt.Errorf("subprocess: %s (%s) was sent SIGKILL and has not ended yet: see `ps -o stat,wchan,args %d` for what it waits for",
				c.name, c.job(), c.cmd.Process.Pid))
		}
	}
	if errs == nil {
		errs = append(errs, errors.New("subprocess: all workers have ended, but what takes their output does not return"))
	}
	return errors.Join(errs...)
}
