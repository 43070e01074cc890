package subprocess

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestWorkersAreBatchProcesses(t *testing.T) {
	own, err := unix.SchedGetAttr(0, 0)
	try(t, err)
	if own.Policy != unix.SCHED_NORMAL {
		t.Skip("tests run with scheduling policy", own.Policy)
	}
	r := start(t, Options{}, 2)
	for i := range 2 {
		h, _ := r.meet(t, i)
		a, err := unix.SchedGetAttr(h.Pid, 0)
		try(t, err)
		if a.Policy != unix.SCHED_BATCH {
			t.Errorf("worker %d has scheduling policy %d, expected %d", i, a.Policy, unix.SCHED_BATCH)
		}
	}
}
