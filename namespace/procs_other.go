//go:build !linux

package namespace

import (
	"errors"
	"syscall"
)

// procState knows of a process only whether it exists.
func procState(pid int) procInfo {
	p := procInfo{PID: pid}
	if pid > 0 {
		err := syscall.Kill(pid, 0)
		p.Exists = err == nil || errors.Is(err, syscall.EPERM)
	}
	return p
}
