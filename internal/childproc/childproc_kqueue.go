//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package childproc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Attributes puts a child into a process group of its own, which ^C at the terminal does not reach.
// There is no death signal: the child notices its parent's end when its connections close.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// AwaitEnd waits until the child has ended without reaping it, so that its process ID, which is its
// group's, is not reused. It returns false if that is impossible.
func AwaitEnd(pid int) bool {
	queue, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(queue) }()
	unix.CloseOnExec(queue)
	events := make([]unix.Kevent_t, 1)
	unix.SetKevent(&events[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	events[0].Fflags = unix.NOTE_EXIT
	for {
		n, err := unix.Kevent(queue, events, events, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ESRCH: // the child had already ended
			return true
		case err != nil || n != 1:
			return false
		}
		return events[0].Flags&unix.EV_ERROR == 0 || unix.Errno(events[0].Data) == unix.ESRCH
	}
}
