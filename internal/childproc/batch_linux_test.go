package childproc

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// schedule returns the scheduling policy and the timer slack of the main thread of a process; 0 is
// the calling thread.
func schedule(t *testing.T, pid int) (policy uint32, slack int) {
	t.Helper()
	a, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	if pid == 0 {
		slack, err = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	} else {
		var b []byte
		if b, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/timerslack_ns"); err == nil {
			slack, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
	}
	if err != nil {
		t.Skip("the timer slack can't be read:", err)
	}
	return a.Policy, slack
}

func TestBatchProcesses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	policy, slack := schedule(t, 0)
	if policy != unix.SCHED_NORMAL {
		t.Skip("tests run with scheduling policy", policy)
	}
	restore := StartBatch()
	c := exec.Command("sleep", "60")
	c.SysProcAttr = Attributes()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	restore()
	if p, s := schedule(t, c.Process.Pid); p != unix.SCHED_BATCH || s != max(slack, int(batchTimerSlack)) {
		t.Errorf("the child has policy %d and timer slack %d ns", p, s)
	}
	if p, s := schedule(t, 0); p != policy || s != slack {
		t.Errorf("afterwards the thread has policy %d and timer slack %d ns, not %d and %d", p, s, policy, slack)
	}
}

func TestBatchKeepsOtherPolicies(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		idle := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		if err := unix.SchedSetAttr(0, idle, 0); err != nil {
			t.Error(err)
			return
		}
		StartBatch()()
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil || a.Policy != unix.SCHED_IDLE {
			t.Errorf("policy %d, expected %d: %v", a.Policy, unix.SCHED_IDLE, err)
		}
	}()
	<-done
}
