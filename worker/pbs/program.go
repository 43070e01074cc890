package pbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"leat/worker"
)

// result is what a program of PBS answered.
type result struct {
	stdout []byte
	stderr string
	err    error // names the program and what it said; nil when it returned 0
	lost   bool  // it was ended before it had answered: whether the server has done what was asked is not known
}

// run runs a program of PBS. Its end is waited for at most the time of k.times.command.
func (k *Kind) run(ctx context.Context, stdin string, env []string, args ...string) result {
	ctx, stop := context.WithTimeoutCause(ctx, k.times.command, fmt.Errorf("%s has not answered for %v", args[0], k.times.command))
	defer stop()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, k.o.program(args[0]), args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	c.Env = env
	if env == nil {
		c.Env = environment()
	}
	// A group of its own: the terminal's ^C must not end a qsub that is about to tell the job's identifier, nor a qdel.
	// And a program that wraps one of PBS is ended with that.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	// qsub may leave a process behind that keeps the connection to the server, and our pipes.
	c.WaitDelay = time.Second
	err := c.Run()
	r := result{stdout: out.Bytes(), stderr: errs.String()}
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
	case ctx.Err() != nil:
		r.err, r.lost = context.Cause(ctx), true
	default:
		var ended *exec.ExitError
		r.lost = errors.As(err, &ended) && !ended.Exited()
		said := strings.TrimSpace(r.stderr)
		if said == "" {
			said = strings.TrimSpace(string(r.stdout))
		}
		if said == "" {
			r.err = fmt.Errorf("%s: %w", args[0], err)
		} else {
			r.err = fmt.Errorf("%s (%w)", said, err)
		}
	}
	return r
}

// patient returns a context that ends some time after ctx: what is under way may answer.
func patient(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	calm, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
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

// environment is that of this process without the variables of a worker, which all begin with LEAT_WORKER: qsub -V would take them into the job.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if n, _, _ := strings.Cut(e, "="); !strings.HasPrefix(n, worker.EnvInvitation) && n != secretVariable {
			env = append(env, e)
		}
	}
	return env
}
