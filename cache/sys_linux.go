package cache

import (
	"errors"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
)

// blockSize returns the allocation unit of the file system.
func blockSize(fd int) int64 {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return 1
	}
	return int64(st.Bsize)
}

// allocate allocates a range of a file without changing its size. The error is
// errors.ErrUnsupported if the file system can't.
func allocate(fd int, at, length int64) error {
	return fdio.Allocate(fd, unix.FALLOC_FL_KEEP_SIZE, at, length)
}

// punch frees the space of a range, if the file system can.
func punch(fd int, at, length int64) {
	_ = fdio.Allocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, length)
}

// dataRange returns the first range of a file from at on that is not a hole; from is -1 if there is
// none.
func dataRange(fd int, at int64) (from, to int64, err error) {
	from, err = unix.Seek(fd, at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return -1, -1, nil
	}
	if err != nil {
		return -1, -1, err
	}
	to, err = unix.Seek(fd, from, unix.SEEK_HOLE)
	return from, to, err
}

// monotonic returns the time of CLOCK_MONOTONIC in nanoseconds, which is the same in all processes,
// or 0.
func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

// flush flushes a file's data, including those of mappings, to the disk.
func flush(fd int) error { return unix.Fdatasync(fd) }

// pwritev writes two slices, one after the other.
func pwritev(fd int, a, b []byte, at int64) (int, error) {
	if len(b) == 0 {
		return unix.Pwrite(fd, a, at)
	}
	return unix.Pwritev(fd, [][]byte{a, b}, at)
}
