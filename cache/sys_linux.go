package cache

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/localdir"
	"leat/internal/procfile"
)

// isLocal reports whether the file system of an open directory or file is known to be local.
func isLocal(fd int) bool { return localdir.Of(fd).Kind == localdir.Local }

// loadsAllocate reports whether a load from a hole allocates it. An overlay may have tmpfs below
// it.
func loadsAllocate(fd int) bool {
	name := localdir.Of(fd).Name
	return name == "tmpfs" || name == "overlay"
}

// blockSize returns the allocation unit of the file system.
func blockSize(fd int) int64 {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return 1
	}
	return int64(st.Bsize)
}

// reopen opens a file again, with locks of its own.
func reopen(fd, flags int) (int, error) { return procfile.Reopen(fd, flags) }

// Kinds of locks. They belong to the open file description and end with it.
const (
	unlocked  = unix.F_UNLCK
	shared    = unix.F_RDLCK
	exclusive = unix.F_WRLCK
)

// lock sets a lock on one byte without waiting. It reports false if another lock conflicts.
func lock(fd int, at int64, kind int16) (bool, error) {
	lk := unix.Flock_t{Type: kind, Start: at, Len: 1}
	for {
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return false, nil
		}
		return err == nil, err
	}
}

// locked reports whether another open file description holds a lock on a byte.
func locked(fd int, at int64) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lk)
	return err == nil && lk.Type != unix.F_UNLCK, err
}

// allocate allocates a range of a file without changing its size. The error is
// errors.ErrUnsupported if the file system can't.
func allocate(fd int, at, length int64) error {
	for {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, at, length)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return errors.ErrUnsupported
		}
		return err
	}
}

// punch frees the space of a range, if the file system can.
func punch(fd int, at, length int64) {
	_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, length)
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

// flush flushes a file's data, including those of mappings, to the disk.
func flush(fd int) error { return unix.Fdatasync(fd) }

// fileLimit returns the largest size of a file that this process may write (ulimit -f). A write
// beyond it raises a signal that ends the process.
func fileLimit() int64 {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &lim) != nil || lim.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lim.Cur)
}

// pwritev writes two slices, one behind the other.
func pwritev(fd int, a, b []byte, at int64) (int, error) {
	if len(b) == 0 {
		return unix.Pwrite(fd, a, at)
	}
	return unix.Pwritev(fd, [][]byte{a, b}, at)
}

// rename replaces a name in the same directory.
func rename(dir int, from, to string) error { return unix.Renameat(dir, from, dir, to) }

func modified(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }
