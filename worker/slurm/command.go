package slurm

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
)

// command is one run of a program of Slurm.
type command struct {
	program string
	args    []string
	stdin   string
	env     []string // nil: that of environment()
}

// run runs a program for at most the given time. Its error names the program and says what the program said.
func (k *Kind) run(ctx context.Context, limit time.Duration, c command) (stdout []byte, stderr string, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer for %v", limit))
	defer stop()
	var out, errs bytes.Buffer
	e := exec.CommandContext(ctx, c.program, c.args...)
	e.Stdin, e.Stdout, e.Stderr = strings.NewReader(c.stdin), &out, &errs
	if e.Env = c.env; e.Env == nil {
		e.Env = environment()
	}
	// A group of its own: the terminal's ^C must not end an sbatch that is about to tell the job's number, nor a scancel.
	// And a program that wraps one of Slurm's is ended with that.
	e.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	e.Cancel = func() error { return syscall.Kill(-e.Process.Pid, syscall.SIGKILL) }
	// For those that have left the group and hold our pipes.
	e.WaitDelay = time.Second
	err = e.Run()
	stderr = strings.TrimSpace(strings.ToValidUTF8(errs.String(), "?"))
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
		return out.Bytes(), stderr, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if stderr != "" {
		return out.Bytes(), stderr, fmt.Errorf("%s: %s (%w)", name(c.program), tail(stderr, endOfLog), err)
	}
	return out.Bytes(), stderr, fmt.Errorf("%s: %w", name(c.program), err)
}

// name is a program's, without its folder.
func name(program string) string { return program[strings.LastIndexByte(program, '/')+1:] }

// environment is that of this process for Slurm's programs, and for the jobs. It is without
//   - LEAT_WORKER..., which tell a process that it is a worker;
//   - what fills in for options of sbatch that the kind sets itself;
//   - SQUEUE_... and SCANCEL_..., which hide jobs from squeue, keep scancel from them, or have it ask before it acts;
//   - when this process runs in a job itself, what describes that job: a worker would take its number of CPUs for its own.
func environment() []string {
	inJob := os.Getenv("SLURM_JOB_ID") != ""
	var env []string
	for _, e := range os.Environ() {
		n, _, _ := strings.Cut(e, "=")
		switch n {
		case "SBATCH_ARRAY_INX", "SBATCH_ERROR", "SBATCH_EXPORT", "SBATCH_INPUT", "SBATCH_JOB_NAME", "SBATCH_OPEN_MODE", "SBATCH_OUTPUT",
			"SBATCH_REQUEUE", "SBATCH_WAIT":
			continue
		case "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT":
		default:
			if strings.HasPrefix(n, "LEAT_WORKER") || strings.HasPrefix(n, "SQUEUE_") || strings.HasPrefix(n, "SCANCEL_") ||
				inJob && (strings.HasPrefix(n, "SLURM_") || strings.HasPrefix(n, "SLURMD_")) {
				continue
			}
		}
		env = append(env, e)
	}
	return env
}

// patient returns a context that ends a while after ctx: what is under way may answer.
func patient(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
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
