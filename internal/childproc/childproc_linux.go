package childproc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Attributes puts a child into a process group of its own, which ^C at the terminal does not reach.
// The kernel kills the child when the thread that started it ends.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// AwaitEnd waits until the child has ended without reaping it, so that its process ID, which is its
// group's, is not reused. It returns false if that is impossible.
func AwaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
