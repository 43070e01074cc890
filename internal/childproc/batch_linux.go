package childproc

import (
	"time"

	"golang.org/x/sys/unix"
)

// batchTimerSlack is by how much timers of batch processes may be late.
const batchTimerSlack = 2 * time.Millisecond

// StartBatch makes the processes that the calling thread starts batch processes, until restore is
// called by the same thread: when one of their threads wakes up, it does not interrupt another
// thread, and their timers may be late by 2 ms. Both reduce how often Go's runtime, which looks at
// its threads every 20 µs to 10 ms in each process, interrupts threads that compute. Processes keep
// another policy than the usual one. Errors are ignored: only time is lost.
func StartBatch() (restore func()) {
	restore = func() {}
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil &&
		time.Duration(slack) < batchTimerSlack {
		if setTimerSlack(batchTimerSlack) == nil {
			restore = func() { _ = setTimerSlack(time.Duration(slack)) }
		}
	}
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil || usual.Policy != unix.SCHED_NORMAL {
		return restore
	}
	batch := *usual
	batch.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(0, &batch, 0) != nil {
		return restore
	}
	restoreSlack := restore
	return func() {
		restoreSlack()
		_ = unix.SchedSetAttr(0, usual, 0)
	}
}

func setTimerSlack(d time.Duration) error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d), 0, 0, 0)
}
