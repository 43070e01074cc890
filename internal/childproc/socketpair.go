//go:build unix

package childproc

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SocketPair returns a stream connection to a child: conn for this process, and the file of the
// child's end, which the caller closes once the child has started. name is that of both files.
func SocketPair(name string) (conn *net.UnixConn, file *os.File, err error) {
	// A process that another goroutine starts meanwhile must not inherit the sockets, which would
	// keep the connection open. Not every system has SOCK_CLOEXEC.
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	own, file := os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name)
	c, err := net.FileConn(own)
	if err = errors.Join(err, own.Close()); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return c.(*net.UnixConn), file, nil
}
