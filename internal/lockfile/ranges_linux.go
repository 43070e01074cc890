package lockfile

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// Try locks n numbers from first, as Read or Write, without waiting; it reports false where
// another's lock stands in the way. A range that this Ranges holds in the other mode changes its
// mode, in one step. Free unlocks.
func (r *Ranges) Try(mode Mode, first, n int64) (bool, error) {
	if err := r.valid(first, n); err != nil {
		return false, err
	}
	err := r.lock(mode, first, n)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// Probe tells how others hold any of n numbers from first: Write if one is held so. It takes
// nothing, so that it never stands in anyone's way.
func (r *Ranges) Probe(first, n int64) (Mode, error) {
	if err := r.valid(first, n); err != nil {
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
	// The kernel tells of the first lock that stands in the way of writing; that which stands in
	// the way of reading is a writer's.
	lk = unix.Flock_t{Type: unix.F_RDLCK, Start: first, Len: n}
	if err := r.fcntl(unix.F_OFD_GETLK, &lk); err != nil {
		return Free, err
	}
	if lk.Type == unix.F_WRLCK {
		return Write, nil
	}
	return Read, nil
}

// valid refuses what the kernel takes for something else: no numbers are all of them, a negative
// count goes backwards.
func (r *Ranges) valid(first, n int64) error {
	if first < 0 || n < 1 || n-1 > math.MaxInt64-first {
		return fmt.Errorf("locking in %s: %d numbers from %d", r.path, n, first)
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
		return fmt.Errorf("locking in %s: %w", r.path, err)
	}
}

// reopen opens what fd is open for once more.
func reopen(fd int) (int, error) {
	return openat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
}
