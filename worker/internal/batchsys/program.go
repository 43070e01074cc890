// Package batchsys has what the kinds of workers share that batch systems start: how programs of such a system are run, how jobs are looked at, and what is shown of logs.
package batchsys

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

// Program is one run of a program of a batch system.
type Program struct {
	Path  string
	Args  []string
	Stdin string
	Env   []string
}

// Answer is what a program said.
type Answer struct {
	Stdout []byte
	Stderr string
	Err    error // names the program and what it said; nil when it returned 0
	Lost   bool  // it was ended before it had answered: whether the system has done what was asked is not known
}

// Run runs the program for at most the time of limit.
func (p Program) Run(ctx context.Context, limit time.Duration) Answer {
	name := filepath.Base(p.Path)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer for %v", limit))
	defer stop()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, p.Path, p.Args...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = strings.NewReader(p.Stdin), &out, &errs, p.Env
	// A group of its own: the terminal's ^C must not end a program that is about to tell a job's number, nor one that ends jobs.
	// And a program that wraps one of the system's is ended with that.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	// Some leave a process behind that keeps the connection to the server, and our pipes.
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

// Patient returns a context that ends a while after ctx: what is under way may answer.
func Patient(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	calm, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		t := time.NewTimer(while)
		defer t.Stop()
		select {
		case <-t.C:
			end(context.Cause(ctx))
		case <-calm.Done():
		}
	})
	return calm, func() {
		unhook()
		end(nil)
	}
}
