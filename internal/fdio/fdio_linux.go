package fdio

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

// Allocate is fallocate(2) with its mode. The error is errors.ErrUnsupported if the file system has
// none.
func Allocate(fd int, mode uint32, at, n int64) error {
	_, err := Retry(func() (int, error) { return 0, unix.Fallocate(fd, mode, at, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// Lock sets a lock on n bytes from at on, or with unix.F_UNLCK removes it, without waiting. An n of
// 0 is the rest of the numbers. It reports false if another lock conflicts. The lock belongs to the
// open file description: it ends with the last descriptor and the last mapping of it.
func Lock(fd int, kind int16, at, n int64) (bool, error) {
	lk := unix.Flock_t{Type: kind, Start: at, Len: n}
	_, err := Retry(func() (int, error) { return 0, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// Locked reports whether another open file description has a lock on any of n bytes from at on. It
// takes no lock.
func Locked(fd int, at, n int64) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: n}
	_, err := Retry(func() (int, error) { return 0, unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lk) })
	return err == nil && lk.Type != unix.F_UNLCK, err
}

// FreeSpace returns the bytes that this user may still write on the file system of an open file or
// directory, without regard to quotas. A file system without a size, such as a tmpfs without limit,
// has math.MaxInt64.
func FreeSpace(fd int) (int64, error) {
	var st unix.Statfs_t
	if _, err := Retry(func() (int, error) { return 0, unix.Fstatfs(fd, &st) }); err != nil {
		return 0, err
	}
	unit := uint64(st.Frsize)
	if unit == 0 {
		unit = uint64(max(st.Bsize, 1))
	}
	if st.Blocks == 0 || st.Bavail > math.MaxInt64/unit {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail * unit), nil
}
