package namespace

import (
	"errors"

	"golang.org/x/sys/unix"
)

// reserve gives an open file size bytes of zeros that are really there.
func reserve(fd, size int) error {
	for {
		err := unix.Fallocate(fd, 0, 0, int64(size))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP):
			return writeZeros(fd, size)
		}
		return err
	}
}
