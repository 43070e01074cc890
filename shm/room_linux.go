package shm

import (
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"
)

// available returns how much memory this process may still take, and by which limit. need is what
// the caller is about to take: if there is clearly room for it, the answer may be too low by the
// pages that a cgroup could drop. The room is only what is free now: nothing is set aside.
func available(need int64) (room, error) { return readRoom("", need) }

const errNoDevice = unix.ENODEV

// readSmallFile is os.ReadFile without the poller, which files of /proc are of no use to: a third
// of the time.
func readSmallFile(name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = append(b, make([]byte, len(b))...)[:len(b)]
		}
	}
}

// retry repeats a system call that a signal broke.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

func statfs(dir string) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	if _, err := retry(func() (int, error) { return 0, unix.Statfs(dir, &st) }); err != nil {
		return st, fmt.Errorf("the file system of %s: %w", dir, err)
	}
	return st, nil
}

// freeOn returns the bytes that this user may still write on the file system of dir; quotas are not
// known. A file system that tells no size, such as a tmpfs without limit, has math.MaxInt64.
func freeOn(dir string) (int64, error) {
	st, err := statfs(dir)
	if err != nil {
		return 0, err
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
