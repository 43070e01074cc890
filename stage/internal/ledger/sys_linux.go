package ledger

import (
	"errors"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// allocate takes room on the disk for n bytes, so that touching their pages can't fail for want of it.
func allocate(fd int, offset, n int64) error {
	if err := fault.Error("ledger.allocate"); err != nil {
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
