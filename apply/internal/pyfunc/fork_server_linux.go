package pyfunc

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// openProcess returns a descriptor that can be read when the process has ended.
func openProcess(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	return fd, os.NewSyscallError("pidfd_open", err)
}

// canAwaitForked reports whether the kernel has openProcess: Linux 5.3 does.
var canAwaitForked = sync.OnceValue(func() bool {
	fd, err := openProcess(os.Getpid())
	return err == nil && unix.Close(fd) == nil
})
