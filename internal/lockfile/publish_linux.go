package lockfile

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// unnamed makes a file that has no name yet: the kernel frees it with its maker.
func (d *Dir) unnamed(perm uint32) (int, error) {
	if fault.Error("lockfile.no O_TMPFILE") != nil {
		return -1, errors.ErrUnsupported
	}
	fd, err := openat(d.fd, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, perm)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL) {
		return -1, errors.ErrUnsupported
	}
	return fd, err
}

// linkUnnamed gives it its first name.
func linkUnnamed(fd, dir int, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENOENT) { // no /proc; this way takes a privilege on kernels before 6.10
		err = unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	}
	return err
}
