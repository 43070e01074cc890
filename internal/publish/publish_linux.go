package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// createUnnamed makes a file in the folder of name that has no name yet, so that the kernel frees
// it with this process. The error is errors.ErrUnsupported where the file system has no such files.
func createUnnamed(name string, perm fs.FileMode) (*os.File, error) {
	// Not filepath.Dir, which would take "link/.." for nothing.
	dir, _ := filepath.Split(name)
	if dir == "" {
		dir = "."
	}
	for {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(perm.Perm()))
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
			return nil, errors.ErrUnsupported
		default:
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
	}
}

// link gives an unnamed file a name, in place of one left there. linkat can't overwrite.
func link(f *os.File, name string) error {
	proc := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	for range 10 {
		err := unix.Linkat(unix.AT_FDCWD, proc, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		if errors.Is(err, unix.ENOENT) { // /proc may not be mounted; this way takes a privilege on older kernels
			err = unix.Linkat(int(f.Fd()), "", unix.AT_FDCWD, name, unix.AT_EMPTY_PATH)
		}
		if !errors.Is(err, unix.EEXIST) {
			return os.NewSyscallError("linkat", err)
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return &fs.PathError{Op: "link", Path: name, Err: errors.New("another process publishes the same file")}
}
