package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRunWithLocalWorkersIsBatchProcess looks at the scheduling of the threads of a run.
func TestRunWithLocalWorkersIsBatchProcess(t *testing.T) {
	t.Parallel()
	own, err := unix.SchedGetAttr(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if own.Policy != unix.SCHED_NORMAL {
		t.Skip("tests run with scheduling policy", own.Policy)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "leat")
	if err := os.Link(self, program); err != nil { // workers are found by the name of the file
		t.Skipf("the test binary can't be linked: %v", err)
	}
	leat(t, exitDone, dir, "demo", "--size", "1100", ".")
	args := []string{"apply", "-q", "-i", "r=B04.tif", "-o", "o=o.tif", "-e", "sin(r)", "--nodata", "nan", "--window", "256"}
	for _, test := range []struct {
		workers []string
		want    uint32
	}{
		{nil, unix.SCHED_NORMAL},
		{[]string{"--on", "subprocess", "--workers", "2"}, unix.SCHED_BATCH},
		{[]string{"--on", "subprocess", "--workers", "2", "--workers-read"}, unix.SCHED_BATCH},
	} {
		t.Run(fmt.Sprint(test.workers), func(t *testing.T) {
			c, out := process(t, dir, append(args, test.workers...)...)
			held := filepath.Join(t.TempDir(), "held")
			c.Path, c.Env = program, append(os.Environ(), holdVariable+"="+held)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			awaitHeld(t, held, out)
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Process.Pid))
			if err != nil || len(threads) < 2 {
				t.Errorf("%d threads: %v", len(threads), err)
			}
			for _, thread := range threads {
				id, _ := strconv.Atoi(thread.Name())
				a, err := unix.SchedGetAttr(id, 0)
				if err == unix.ESRCH {
					continue // it has ended
				}
				if err != nil || a.Policy != test.want {
					t.Errorf("thread %d of %d has attributes %+v, expected policy %d: %v", id, len(threads), a, test.want,
						err)
				}
			}
			if err := c.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
