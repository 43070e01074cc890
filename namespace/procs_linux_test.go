package namespace

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"leat/internal/pytest"

	"golang.org/x/sys/unix"
)

// asNobody runs f on a thread that has another user's rights on files and processes, or skips the
// test.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may act as another user")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		// The raw call changes this thread only.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			t.Errorf("setresuid: %v", errno)
			return
		}
		f()
	}()
	<-done
}

// started starts a process that ends with the test.
func started(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}

// eventually waits for what other processes do.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func TestProcStateOfLiveProcess(t *testing.T) {
	cmd := started(t, "sleep", "100")
	// It runs, or waits for its file to be read, before it sleeps.
	eventually(t, "exec", func() bool {
		p := procState(cmd.Process.Pid)
		return p.Command == "sleep 100" && p.State == 'S'
	})
	p := procState(cmd.Process.Pid)
	if p.PID != cmd.Process.Pid || !p.Exists || p.Exiting || p.Start == 0 {
		t.Errorf("%+v", p)
	}
	if startTime(p.PID) != p.Start || startTime(os.Getpid()) > p.Start {
		t.Errorf("started at %d, before this one at %d", p.Start, startTime(os.Getpid()))
	}
	if dying(p.PID, p.Start) {
		t.Error("it is dying")
	}
	if !dying(p.PID, p.Start+1) {
		t.Error("one that had its number before is not dead")
	}
}

func TestProcStateOfZombie(t *testing.T) {
	cmd := started(t, "sleep", "100")
	start := startTime(cmd.Process.Pid)
	cmd.Process.Kill()
	eventually(t, "zombie", func() bool { return procState(cmd.Process.Pid).State == 'Z' })
	if p := procState(cmd.Process.Pid); !p.Exists || !p.Exiting || p.Start != start || p.Command != "[sleep]" {
		t.Errorf("%+v", p)
	}
	if !dying(cmd.Process.Pid, start) {
		t.Error("it lives")
	}
	cmd.Wait()
	if p := procState(cmd.Process.Pid); p.Exists || p.Start != 0 {
		t.Errorf("after its end: %+v", p)
	}
	if !dying(cmd.Process.Pid, start) {
		t.Error("it lives after its end")
	}
}

func TestProcStateOfKilledProcess(t *testing.T) {
	for range 20 {
		cmd := started(t, "sleep", "100")
		start := startTime(cmd.Process.Pid)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if !dying(cmd.Process.Pid, start) {
			t.Fatalf("%+v", procState(cmd.Process.Pid))
		}
		cmd.Wait()
	}
}

func TestProcStateOfStoppedProcess(t *testing.T) {
	cmd := started(t, "sleep", "100")
	start := startTime(cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stop", func() bool { return procState(cmd.Process.Pid).State == 'T' })
	if dying(cmd.Process.Pid, start) {
		t.Errorf("%+v", procState(cmd.Process.Pid))
	}
}

func TestProcessWithoutFirstThread(t *testing.T) {
	script := `
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
ctypes.CDLL(None).syscall(%d, 0)`
	cmd := started(t, pytest.Python(t, "ctypes"), "-c", fmt.Sprintf(script, unix.SYS_EXIT))
	pid, start := cmd.Process.Pid, startTime(cmd.Process.Pid)
	eventually(t, "the first thread's end", func() bool { return procState(pid).State == 'Z' })
	if p := procState(pid); !p.Exists || p.Exiting {
		t.Errorf("%+v", p)
	}
	if dying(pid, start) {
		t.Error("it is taken for dead")
	}
	cmd.Process.Kill()
	eventually(t, "its end", func() bool { return dying(pid, start) })
}

func TestProcStateOfUnusedID(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid(), 1 << 30} {
		if p := procState(pid); p.Exists || p.Exiting || p.Start != 0 {
			t.Errorf("%d: %+v", pid, p)
		}
		if !dying(pid, 1) {
			t.Errorf("%d is alive", pid)
		}
	}
}

func TestStatLineWithOddCommand(t *testing.T) {
	script := `
import ctypes, time
ctypes.CDLL(None).prctl(15, b") Z 1 (\n) 0", 0, 0, 0)
time.sleep(100)`
	cmd := started(t, pytest.Python(t, "ctypes"), "-c", script)
	pid := cmd.Process.Pid
	start := startTime(pid)
	eventually(t, "the new name", func() bool {
		s, _, err := readTask(fmt.Sprint("/proc/", pid))
		return err == nil && s.comm == ") Z 1 (\n) 0"
	})
	if p := procState(pid); p.Exiting || p.Start != start || !strings.Contains(p.Command,
		"?import ctypes, time?") || len(p.Command) > 200 {
		t.Errorf("%+v", p)
	}
	cmd.Process.Kill()
	eventually(t, "zombie", func() bool { return procState(pid).State == 'Z' })
	if p := procState(pid); p.Command != "[) Z 1 (?) 0]" {
		t.Errorf("%+v", p)
	}
}

func TestProcStateOfOtherUser(t *testing.T) {
	pid, start := os.Getpid(), startTime(os.Getpid())
	asNobody(t, func() {
		if p := procState(pid); !p.Exists || dying(pid, start) {
			t.Errorf("%+v", p)
		}
	})
}

// dying reports whether the process with this id and start time has ended or is ending.
func dying(pid int, start uint64) bool {
	p := procState(pid)
	return !p.Exists || p.Exiting || p.Start != 0 && p.Start != start
}
