// Package batch contains what the launchers for batch systems share: running the system's
// programs, watching jobs, and reading logs.
package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Program is a program of a batch system to run.
type Program struct {
	Path  string
	Args  []string
	Stdin string
	Env   []string
}

// Answer is the result of a Program.
type Answer struct {
	Stdout []byte
	Stderr string
	Err    error // names the program and quotes its output; nil: exit status 0
	// the program was killed before it finished: the system may have executed the request
	Lost bool
}

// Run runs the program and kills it after limit.
func (p Program) Run(ctx context.Context, limit time.Duration) Answer {
	name := filepath.Base(p.Path)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer for %v", limit))
	defer stop()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, p.Path, p.Args...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = strings.NewReader(p.Stdin), &out, &errs, p.Env
	// In its own group, the terminal's ^C does not end a program that submits or cancels jobs, and
	// a wrapper script is killed together with the program that it runs.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	// A program may leave a process behind that keeps the pipes open.
	c.WaitDelay = time.Second
	err := c.Run()
	a := Answer{Stdout: out.Bytes(), Stderr: strings.TrimSpace(strings.ToValidUTF8(errs.String(), "?"))}
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
		return a
	case ctx.Err() != nil:
		err, a.Lost = context.Cause(ctx), true
	default:
		var ended *exec.ExitError
		a.Lost = errors.As(err, &ended) && !ended.Exited()
	}
	said := a.Stderr
	if said == "" && !a.Lost {
		said = strings.TrimSpace(strings.ToValidUTF8(out.String(), "?"))
	}
	if said == "" {
		a.Err = fmt.Errorf("%s: %w", name, err)
	} else {
		a.Err = fmt.Errorf("%s: %s (%w)", name, Tail(strings.TrimPrefix(said, name+": "), EndOfLog), err)
	}
	return a
}

// Extend returns a context that ends a while after ctx, so that a program in progress can finish.
func Extend(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	extended, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		t := time.NewTimer(while)
		defer t.Stop()
		select {
		case <-t.C:
			end(context.Cause(ctx))
		case <-extended.Done():
		}
	})
	return extended, func() {
		unhook()
		end(nil)
	}
}
