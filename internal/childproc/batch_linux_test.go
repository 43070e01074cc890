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

// TestMakeBatch runs itself as the process that becomes a batch process.
func TestMakeBatch(t *testing.T) {
	if os.Getenv("MAKE_BATCH") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestMakeBatch$", "-test.v")
		c.Env = append(os.Environ(), "MAKE_BATCH=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if policy, _ := schedule(t, 0); policy != unix.SCHED_NORMAL {
		t.Skip("tests run with scheduling policy", policy)
	}
	MakeBatch()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) == 0 {
		t.Fatal(len(threads), "threads", err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if a, err := unix.SchedGetAttr(id, 0); err != nil || a.Policy != unix.SCHED_BATCH {
			t.Errorf("thread %d of %d has attributes %v, %v", id, len(threads), a, err)
		}
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
