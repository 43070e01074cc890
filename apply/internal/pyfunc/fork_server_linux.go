package pyfunc

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// openProcess returns a descriptor that is readable once the process has ended.
func openProcess(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	return fd, os.NewSyscallError("pidfd_open", err)
}

// canAwaitForked reports whether the kernel has pidfd_open, which Linux 5.3 introduced.
var canAwaitForked = sync.OnceValue(func() bool {
	fd, err := openProcess(os.Getpid())
	return err == nil && unix.Close(fd) == nil
})
