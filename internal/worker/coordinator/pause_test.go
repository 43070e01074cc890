package coordinator

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const stillVariable = "LEAT_TEST_STANDS_STILL" // TRANSPORT:Directory

// The child process has a run and its worker, whose block lasts until a file exists.
func TestHelperForStoppedProcess(t *testing.T) {
	transport, dir, child := strings.Cut(os.Getenv(stillVariable), ":")
	if !child {
		t.Skip("is the child of another test")
	}
	k := newTaken()
	o := testOptions(1, k)
	o.Times = quick
	c := newTestCoordinator(t, o)
	w := startWorker(t, environmentOf(t, c, transport, "test-0"),
		&plain{onCompute: func(ctx context.Context, _ int) error {
			if err := os.WriteFile(filepath.Join(dir, "begun"), nil, 0o600); err != nil {
				return err
			}
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(dir, "go on")); err == nil {
					return nil
				}
				time.Sleep(time.Millisecond)
			}
			return ctx.Err()
		}})
	if err := errors.Join(waitRun(t, c), w.wait()); err != nil {
		t.Fatal(err)
	}
	k.check(t, 1)
	if s := c.Status(); s.LostWorkers != 0 {
		t.Errorf("%+v", s)
	}
}

// The child is stopped and continued, as when a machine is moved to another host or a job is
// frozen.
func TestStoppedRunAndWorkerContinue(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	for _, transport := range transports {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperForStoppedProcess$")
		cmd.Env = append(os.Environ(), stillVariable+"="+transport+":"+dir)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "a block that has begun",
			func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })
		for range 2 {
			err := cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(2 * quick.HeartbeatTimeout)
			if err := errors.Join(err, cmd.Process.Signal(syscall.SIGCONT)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(quick.HeartbeatTimeout / 4)
		}
		if err := os.WriteFile(filepath.Join(dir, "go on"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", transport, err, &out)
		}
	}
}
