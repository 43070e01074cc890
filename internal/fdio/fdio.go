//go:build unix

// Package fdio makes system calls on descriptors: it repeats those that a signal interrupted, and
// reads and writes in full.
package fdio

import (
	"errors"
	"io"
	"math"

	"golang.org/x/sys/unix"
)

// Retry repeats a system call that a signal interrupted.
func Retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// Open opens a name in an open directory, or in unix.AT_FDCWD, and keeps the descriptor from child
// processes.
func Open(dir int, name string, flags int, perm uint32) (int, error) {
	return Retry(func() (int, error) { return unix.Openat(dir, name, flags|unix.O_CLOEXEC, perm) })
}

// Flock locks or unlocks an open file with flock(2).
func Flock(fd, how int) error {
	_, err := Retry(func() (int, error) { return 0, unix.Flock(fd, how) })
	return err
}

// largest is the most that Linux reads or writes at once.
const largest = math.MaxInt32 &^ (4096 - 1)

// ReadFull reads until b is full or the file ends. It returns the number of bytes read.
func ReadFull(fd int, b []byte, at int64) (done int, err error) {
	for done < len(b) {
		n, err := Retry(func() (int, error) {
			return unix.Pread(fd, b[done:min(len(b), done+largest)], at+int64(done))
		})
		if err != nil || n == 0 {
			return done, err
		}
		done += n
	}
	return done, nil
}

// WriteFull writes all of b.
func WriteFull(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := Retry(func() (int, error) { return unix.Pwrite(fd, b[:min(len(b), largest)], at) })
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// WriteZeros writes n zero bytes.
func WriteZeros(fd int, at, n int64) error {
	b := make([]byte, min(n, 1<<20))
	for end := at + n; at < end; at += int64(len(b)) {
		if err := WriteFull(fd, b[:min(int64(len(b)), end-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// Reserve allocates the space of a range of a file and extends the file to its end: by fallocate,
// or by writing zeros where the file system can't. The range must hold no data yet.
func Reserve(fd int, at, n int64) error {
	err := Allocate(fd, 0, at, n)
	if errors.Is(err, errors.ErrUnsupported) {
		return WriteZeros(fd, at, n)
	}
	return err
}

// FileLimit returns the largest size of a file that this process may write (ulimit -f). A write
// beyond it raises a signal that ends the process.
func FileLimit() int64 {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &lim) != nil || lim.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lim.Cur)
}
