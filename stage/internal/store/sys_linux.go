package store

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// hasExactHoles reports false for file systems that free nothing, or free it later, when a part of
// an extent is punched, while their block counts claim otherwise.
func hasExactHoles(fd int) bool {
	const btrfs, zfs, bcachefs = 0x9123683e, 0x2fc12fc1, 0xca451a4e
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	t := uint32(st.Type)
	return t != btrfs && t != zfs && t != bcachefs
}

// allocate allocates the space of a file. The error is errors.ErrUnsupported if the file system
// can't.
func allocate(fd int, size int64) error {
	for {
		err := unix.Fallocate(fd, 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return errors.ErrUnsupported
		}
		return err
	}
}

// punch frees the space of a range. The error is errors.ErrUnsupported if the file system can't.
func punch(fd int, at, length int64) error {
	if fault.Error("stage.no punch") != nil {
		return errors.ErrUnsupported
	}
	for {
		err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, length)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return errors.ErrUnsupported
		}
		return err
	}
}

// fileLimit returns the largest size of a file that this process may write (ulimit -f). A write
// beyond it raises a signal that ends the process.
func fileLimit() int64 {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &lim) != nil || lim.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lim.Cur)
}
