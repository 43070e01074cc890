package shm

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// freeOn returns the bytes that this user may still write on the file system of dir, without regard
// to quotas. A file system without a size, such as a tmpfs without limit, has math.MaxInt64.
func freeOn(dir string) (int64, error) {
	var st unix.Statfs_t
	if _, err := retry(func() (int, error) { return 0, unix.Statfs(dir, &st) }); err != nil {
		return 0, fmt.Errorf("file system of %s: %w", dir, err)
	}
	if st.Blocks == 0 {
		return math.MaxInt64, nil
	}
	unit := uint64(max(st.Frsize, 1))
	if st.Frsize == 0 {
		unit = uint64(max(st.Bsize, 1))
	}
	if st.Bavail > math.MaxInt64/unit {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail * unit), nil
}
