package cache

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/localdir"
	"leat/internal/procfile"
)

// isLocal tells whether the mappings and locks of an open directory or file are known to be those of one machine.
func isLocal(fd int) bool { return localdir.Of(fd).Kind == localdir.Local }

// loadsAllocate tells whether a load of a hole takes room on the file's file system. An overlay may have tmpfs below it.
func loadsAllocate(fd int) bool {
	name := localdir.Of(fd).Name
	return name == "tmpfs" || name == "overlay"
}

// blockSize is what the file system allocates at once.
func blockSize(fd int) int64 {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return 1
	}
	return int64(st.Bsize)
}

// unnamed makes a file without a name in an open directory; errors.ErrUnsupported where there is no such thing. It is not
// O_EXCL, so that it can be linked.
func unnamed(dir int) (int, error) {
	if fault.Error("cache.no O_TMPFILE") != nil {
		return -1, errors.ErrUnsupported
	}
	fd, err := openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL) {
		return -1, errors.ErrUnsupported
	}
	return fd, err
}

// link gives an open file a name in an open directory. It never replaces one. A file that has lost all of its names can't be
// given one: fs.ErrNotExist.
func link(fd, dir int, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, procFD(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, unix.ENOENT) { // no /proc; this way takes a privilege on kernels before 6.10
		err = unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	}
	return err
}

// reopen opens a file again, with locks of its own.
func reopen(fd, flags int) (int, error) { return procfile.Reopen(fd, flags) }

// How bytes of a file are locked. The locks belong to the open file and end with it.
const (
	unlocked  = unix.F_UNLCK
	shared    = unix.F_RDLCK
	exclusive = unix.F_WRLCK
)

// lock sets a lock on one byte without waiting; false tells that another's stands in the way.
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

// locked tells whether another open file holds a lock on a byte, without taking one.
func locked(fd int, at int64) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lk)
	return err == nil && lk.Type != unix.F_UNLCK, err
}

// allocate takes room for a range of a file, whose size stays. errors.ErrUnsupported where the file system can't.
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

// punch gives the room of a range back. Where the file system can't, it is lost.
func punch(fd int, at, length int64) {
	_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, length)
}

// dataRange returns the first range of a file from at that is no hole; from is -1 where there is none.
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

// flush brings a file's data to the disk, those of mappings too.
func flush(fd int) error { return unix.Fdatasync(fd) }

// fileLimit is how long a file of this process may become (ulimit -f): a write beyond it is a signal that ends the process.
func fileLimit() int64 {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &lim) != nil || lim.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lim.Cur)
}

// pwritev writes two pieces, one behind the other.
func pwritev(fd int, a, b []byte, at int64) (int, error) {
	if len(b) == 0 {
		return unix.Pwrite(fd, a, at)
	}
	return unix.Pwritev(fd, [][]byte{a, b}, at)
}

// rename replaces a name in the same directory.
func rename(dir int, from, to string) error { return unix.Renameat(dir, from, dir, to) }

func modified(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }
