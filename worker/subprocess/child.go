package subprocess

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"leat/internal/childproc"

	"golang.org/x/sys/unix"
)

// child is a child process, the leader of its process group.
type child struct {
	name string
	cmd  *exec.Cmd
	out  *output

	mu   sync.Mutex
	gone bool // its process ID may be reused from now on
}

func (c *child) job() string { return fmt.Sprintf("process %d", c.cmd.Process.Pid) }

// signal sends a signal to the child's process group.
func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = syscall.Kill(-c.cmd.Process.Pid, s) // fails if no process is left
	}
}

func (c *child) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// wait waits for the child to end, kills the rest of its group, and returns how the child ended;
// nil: successfully.
func (c *child) wait() error {
	var err error
	reaped := false
	if !childproc.AwaitEnd(c.cmd.Process.Pid) {
		err, reaped = c.cmd.Wait(), true
	}
	c.mu.Lock()
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	c.gone = true
	c.mu.Unlock()
	if !reaped {
		err = c.cmd.Wait()
	}
	c.out.await()
	if c.cmd.ProcessState == nil {
		return err
	}
	return inWords(c.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// inWords describes how a process ended: nil, "exit status 2", "killed by SIGKILL".
func inWords(s syscall.WaitStatus) error {
	switch {
	case s.Exited() && s.ExitStatus() == 0:
		return nil
	case s.Exited():
		return fmt.Errorf("exit status %d", s.ExitStatus())
	case s.Signaled():
		name := unix.SignalName(s.Signal())
		if name == "" {
			name = fmt.Sprintf("signal %d", int(s.Signal()))
		}
		if s.CoreDump() {
			name += " (core dumped)"
		}
		return errors.New("killed by " + name)
	}
	return fmt.Errorf("wait status %#x", uint32(s))
}
