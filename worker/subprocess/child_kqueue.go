//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package subprocess

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes has the child in a group of its own. There is no death signal: the end of its connections tells the child that its parent is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitEnd returns when the child has ended, without reaping it: until then its number, which is its group's, can't become another process's.
// false: it can't be told.
func awaitEnd(pid int) bool {
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
		case err == unix.ESRCH: // it had ended before it was asked for
			return true
		case err != nil || n != 1:
			return false
		}
		return events[0].Flags&unix.EV_ERROR == 0 || unix.Errno(events[0].Data) == unix.ESRCH
	}
}
