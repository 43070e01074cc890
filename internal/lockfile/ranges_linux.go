package lockfile

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// Try locks n numbers from first without waiting; it reports false if another lock conflicts. The
// mode of numbers that r has locked already changes in one step. Free unlocks.
func (r *Ranges) Try(mode Mode, first, n int64) (bool, error) {
	if err := r.checkRange(first, n); err != nil {
		return false, err
	}
	err := r.lock(mode, first, n)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// Probe returns the strongest lock of others on any of n numbers from first. It takes no lock, so
// it never makes another process fail.
func (r *Ranges) Probe(first, n int64) (Mode, error) {
	if err := r.checkRange(first, n); err != nil {
		return Free, err
	}
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: n}
	if err := r.fcntl(unix.F_OFD_GETLK, &lk); err != nil {
		return Free, err
	}
	switch lk.Type {
	case unix.F_UNLCK:
		return Free, nil
	case unix.F_WRLCK:
		return Write, nil
	}
	// The kernel returned the first lock that conflicts with writing. Only an exclusive lock
	// conflicts with reading.
	lk = unix.Flock_t{Type: unix.F_RDLCK, Start: first, Len: n}
	if err := r.fcntl(unix.F_OFD_GETLK, &lk); err != nil {
		return Free, err
	}
	if lk.Type == unix.F_WRLCK {
		return Write, nil
	}
	return Read, nil
}

// checkRange refuses ranges to which the kernel gives another meaning: length 0 is the rest of the
// file, and a negative length ends at first.
func (r *Ranges) checkRange(first, n int64) error {
	if first < 0 || n < 1 || n-1 > math.MaxInt64-first {
		return fmt.Errorf("locking %s: %d numbers from %d are not a range", r.path, n, first)
	}
	return nil
}

func (r *Ranges) lock(mode Mode, first, n int64) error {
	kind := [...]int16{Free: unix.F_UNLCK, Read: unix.F_RDLCK, Write: unix.F_WRLCK}[mode]
	return r.fcntl(unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: first, Len: n})
}

func (r *Ranges) fcntl(cmd int, lk *unix.Flock_t) error {
	for {
		err := unix.FcntlFlock(uintptr(r.fd), cmd, lk)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			return err
		}
		return fmt.Errorf("locking %s: %w", r.path, err)
	}
}

// reopen opens the file of a descriptor again.
func reopen(fd int) (int, error) {
	return openat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
}
