package childproc

import (
	"os"
	"strconv"
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
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	late := err == nil && time.Duration(slack) < batchTimerSlack && setTimerSlack(batchTimerSlack) == nil
	usual := setBatch(0)
	return func() {
		if late {
			_ = setTimerSlack(time.Duration(slack))
		}
		if usual != nil {
			_ = unix.SchedSetAttr(0, usual, 0)
		}
	}
}

// MakeBatch makes this process a batch process, for a program that computes together with
// processes that it starts. Its timers are not late.
func MakeBatch() {
	for range 2 { // a thread that is not a batch thread yet may start another one
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				setBatch(id)
			}
		}
	}
}

// setBatch makes a thread of the usual policy a batch thread, and returns how it was scheduled, or
// nil if it changed nothing. 0 is the calling thread.
func setBatch(thread int) (usual *unix.SchedAttr) {
	usual, err := unix.SchedGetAttr(thread, 0)
	if err != nil || usual.Policy != unix.SCHED_NORMAL {
		return nil
	}
	batch := *usual
	batch.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(thread, &batch, 0) != nil {
		return nil
	}
	return usual
}

func setTimerSlack(d time.Duration) error {
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d), 0, 0, 0)
}
