// Package proctest runs parts of a test in real processes that can be killed: the test binary runs
// itself again. A package that uses it calls [Main] first thing in TestMain:
//
//	func TestMain(m *testing.M) {
//		proctest.Main(map[string]proctest.Func{"writer": writer})
//		goleak.VerifyTestMain(m)
//	}
//
// [Must], [OK], [WantErr] and [MemoryDir] are helpers of such tests.
package proctest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"leat/internal/fault"
)

// Func is what a child process does. Its error is the child's failure and goes to its standard
// error.
type Func func(args []string) error

const (
	envName = "LEAT_PROCTEST"
	envKill = "LEAT_PROCTEST_KILL" // NAME:N, the point and the pass at which the child ends itself
	envArgs = "LEAT_PROCTEST_ARGS"
)

// Main runs the named Func and exits if this process is a child; otherwise it returns.
func Main(table map[string]Func) {
	name := os.Getenv(envName)
	if name == "" {
		return
	}
	f, ok := table[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "proctest: unknown function %q\n", name)
		os.Exit(2)
	}
	var args []string
	if s := os.Getenv(envArgs); s != "" {
		args = strings.Split(s, "\x1f")
	}
	fault.Set(func(point string) error { Point(point); return nil })
	if err := f(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

var passes atomic.Int64

// Point is a place at which a test may kill the child, see [Command.KillAt]; so is every
// [fault.Point] of the code. Elsewhere it does nothing. Passes are counted over all goroutines,
// from 1.
func Point(name string) {
	where, n, ok := strings.Cut(os.Getenv(envKill), ":")
	if !ok || where != name || strconv.FormatInt(passes.Add(1), 10) != n {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// Command is a child that can be started.
type Command struct {
	cmd    *exec.Cmd
	output bytes.Buffer
}

// New prepares a child that runs the Func of that name. Arguments must not hold the byte 0x1f.
func New(name string, args ...string) *Command {
	c := &Command{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), envName+"="+name, envArgs+"="+strings.Join(args, "\x1f"))
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	return c
}

// KillAt makes the child kill itself with SIGKILL at the n-th pass of a point.
func (c *Command) KillAt(point string, n int) *Command {
	c.cmd.Env = append(c.cmd.Env, fmt.Sprintf("%s=%s:%d", envKill, point, n))
	return c
}

// Start starts the child. It is killed when the test ends before it.
func (c *Command) Start(t testing.TB) *Command {
	t.Helper()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			c.Kill()
			c.Wait()
		}
	})
	return c
}

// Kill sends SIGKILL, as a machine out of memory does.
func (c *Command) Kill() { _ = c.cmd.Process.Kill() }

// Wait waits for the child's end. It reports whether the child was killed and what it printed; err
// is nil if the Func returned nil.
func (c *Command) Wait() (killed bool, output string, err error) {
	err = c.cmd.Wait()
	s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL, c.output.String(), err
}
