//go:build !linux

package pyfunc

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func awaitEnd(int) bool { return false }
