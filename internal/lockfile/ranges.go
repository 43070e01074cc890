//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/procfile"
)

// Mode is the kind of lock on a range.
type Mode int16

// Modes of locks.
const (
	Free  Mode = unix.F_UNLCK
	Read  Mode = unix.F_RDLCK // shared
	Write Mode = unix.F_WRLCK // exclusive
)

// Ranges are locks on numbers from 0 to 1<<63-1: on byte ranges of an empty file. The locks of one
// Ranges never conflict with each other, but with those of any other Ranges in this process or
// another (Linux's open file description locks; elsewhere the errors are errors.ErrUnsupported).
// They end with Close or the process. A Ranges is safe for concurrent use, but does not exclude
// goroutines from each other.
type Ranges struct {
	path string
	fd   int
}

// OpenRanges opens the file of that name for locks on ranges, and creates it (0600) if it is
// missing. It takes no lock on the file, which must be in a directory that is never swept: the
// kernel keeps a file's locks in a list, so each open would cost a walk over all of them.
func (d *Dir) OpenRanges(name string) (*Ranges, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := fdio.Open(d.fd, name, flags, 0o600)
	if errors.Is(err, unix.EACCES) && d.isOwnEmpty(name) {
		// Created under an umask that removes the user's rights, by a process that was killed
		// before it restored them.
		if err = unix.Fchmodat(d.fd, name, 0o600, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			fd, err = fdio.Open(d.fd, name, flags, 0o600)
		}
	}
	if err != nil {
		return nil, d.explain("open", name, err)
	}
	st, err := d.checkOwn(fd, name)
	if err == nil && st.Mode&0o777 != 0o600 {
		err = unix.Fchmod(fd, 0o600)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Ranges{path: d.FilePath(name), fd: fd}, nil
}

// Probe reports whether anybody has locked any of n numbers from first of the file of that name. It
// takes no lock. A missing file is fs.ErrNotExist.
func (d *Dir) Probe(name string, first, n int64) (bool, error) {
	fd, err := fdio.Open(d.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, d.explain("open", name, err)
	}
	defer unix.Close(fd)
	return (&Ranges{path: d.FilePath(name), fd: fd}).Probe(first, n)
}

// Ranges returns locks on the ranges of an open file, which may not have its name yet. They belong
// to a descriptor of their own and end with the Ranges; fd stays the caller's. Without /proc the
// error is errors.ErrUnsupported.
func (d *Dir) Ranges(fd int, name string) (*Ranges, error) {
	err, again := fault.Error("lockfile.no proc"), -1
	if err == nil {
		again, err = procfile.Reopen(fd, unix.O_RDWR)
	}
	if errors.Is(err, fs.ErrNotExist) && unix.Fstat(fd, new(unix.Stat_t)) == nil { // the file is open
		return nil, fmt.Errorf("locks between processes need /proc, which is not mounted: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, d.explain("open", name, err)
	}
	if _, err := d.checkOwn(again, name); err != nil {
		unix.Close(again)
		return nil, err
	}
	return &Ranges{path: d.FilePath(name), fd: again}, nil
}

// Try locks n numbers from first without waiting; it reports false if another lock conflicts. The
// mode of numbers that r has locked already changes in one step. Free unlocks.
func (r *Ranges) Try(mode Mode, first, n int64) (bool, error) {
	if err := r.checkRange(first, n); err != nil {
		return false, err
	}
	got, err := fdio.Lock(r.fd, int16(mode), first, n)
	return got, r.explain(err)
}

// Probe reports whether others have locked any of n numbers from first. It takes no lock, so it
// never makes another process fail.
func (r *Ranges) Probe(first, n int64) (bool, error) {
	if err := r.checkRange(first, n); err != nil {
		return false, err
	}
	held, err := fdio.Locked(r.fd, first, n)
	return held, r.explain(err)
}

// checkRange refuses ranges to which the kernel gives another meaning: length 0 is the rest of the
// file, and a negative length ends at first.
func (r *Ranges) checkRange(first, n int64) error {
	if first < 0 || n < 1 || n-1 > math.MaxInt64-first {
		return fmt.Errorf("locking %s: %d numbers from %d are not a range", r.path, n, first)
	}
	return nil
}

func (r *Ranges) explain(err error) error {
	if err != nil {
		err = fmt.Errorf("locking %s: %w", r.path, err)
	}
	return err
}

// Gone reports whether the file was removed: processes that open it now lock another file.
func (r *Ranges) Gone() bool {
	var st unix.Stat_t
	return unix.Fstat(r.fd, &st) != nil || st.Nlink == 0
}

// Close ends all locks of r.
func (r *Ranges) Close() error {
	// Closing alone is not enough: until its exec, a child being started has the descriptor too.
	_, _ = fdio.Lock(r.fd, unix.F_UNLCK, 0, 0)
	err := unix.Close(r.fd)
	r.fd = -1 // another file may get the number
	return err
}
