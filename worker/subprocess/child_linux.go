package subprocess

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the child in a group of its own, and killed by the kernel when the thread that started it ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns when the child has ended, without reaping it: until then its number, which is its group's, can't become another process's.
// false: it can't be told.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}
