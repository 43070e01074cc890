package index

import (
	"errors"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// allocate allocates n bytes on the disk, so that writing to their mapped pages can't fail for lack
// of space.
func allocate(fd int, offset, n int64) error {
	if err := fault.Error("index.allocate"); err != nil {
		return err
	}
	for {
		err := unix.Fallocate(fd, 0, offset, n)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return zeros(fd, offset, n)
		default:
			return err
		}
	}
}
