package pyfunc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes puts the process into a group of its own, which ^C at the terminal does not reach, and
// lets the kernel kill it when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until the process has ended without reaping it, so that its process ID, which is
// its group's, is not used again. It returns false if that is impossible.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
