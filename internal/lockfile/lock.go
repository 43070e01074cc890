//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/backoff"
	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/tempfile"
)

// Lock is a lock on a named file, until Release or the end of the process. It is a raw descriptor:
// the garbage collector does not release it. One goroutine at a time may use it.
type Lock struct {
	dir  *Dir
	name string
	fd   int
}

// LockShared locks a file that other processes may use too. It must exist (else fs.ErrNotExist) and
// be a regular file of the user (else ErrForeign). With write it is opened for reading and writing.
// If it stays exclusively locked for longer than a sweep takes, the error is ErrLocked.
func (d *Dir) LockShared(name string, write bool) (*Lock, error) {
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	return d.lock(name, flags, unix.LOCK_SH)
}

func (d *Dir) lock(name string, flags, how int) (*Lock, error) {
	// A sweep locks a file for the length of three system calls; its process may be stopped in
	// between.
	patience := time.Duration(0)
	if how == unix.LOCK_SH {
		patience = 100 * time.Millisecond
	}
	fd, err := lockAt(d.fd, name, flags, how, patience, func(fd int) error {
		_, err := d.checkOwn(fd, name)
		return err
	})
	var step *stepError
	switch {
	case errors.As(err, &step):
		return nil, d.explain(step.op, name, step.err)
	case errors.Is(err, ErrLocked):
		return nil, fmt.Errorf("%s: %w", filepath.Join(d.path, name), ErrLocked)
	case err != nil:
		return nil, err
	}
	return &Lock{dir: d, name: name, fd: fd}, nil
}

// stepError is an error of a system call.
type stepError struct {
	op  string
	err error
}

func (e *stepError) Error() string { return e.op + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// lockAt opens and locks a name in an open directory, and repeats both until the name leads to the
// locked file. check may refuse the open file before it is locked. While another lock conflicts,
// lockAt waits about twice as long as patience, then returns ErrLocked.
func lockAt(dir int, name string, flags, how int, patience time.Duration, check func(fd int) error) (int, error) {
	pause := backoff.Backoff{Next: 20 * time.Microsecond}
	for {
		// Without O_NONBLOCK, opening a pipe would wait.
		fd, err := fdio.Open(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return -1, &stepError{"open", err}
		}
		if err := check(fd); err != nil {
			unix.Close(fd)
			return -1, err
		}
		fault.Point("lockfile.opened")
		locked, err := tryLock(dir, name, fd, how)
		if locked {
			return fd, nil
		}
		unix.Close(fd)
		switch {
		case err == nil: // removed between open and lock: the name may lead to another file now
		case !errors.Is(err, ErrLocked):
			return -1, &stepError{"lock", err}
		case pause.Next > patience:
			return -1, ErrLocked
		default:
			fault.Point("lockfile.waiting")
			pause.Sleep()
		}
	}
}

// tryLock locks an open file without waiting and reports whether name still leads to it.
func tryLock(dir int, name string, fd, how int) (bool, error) {
	err := fdio.Flock(fd, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, ErrLocked
	}
	if err != nil {
		return false, err
	}
	fault.Point("lockfile.locked")
	return tempfile.Leads(dir, name, fd), nil
}

// TryLock locks an open file exclusively, until it is closed, and reports whether its name still
// leads to it: if not, a sweep has removed it. It does not wait; the error is ErrLocked if others
// have locked the file.
func TryLock(f *os.File) (bool, error) {
	return tryLock(unix.AT_FDCWD, f.Name(), int(f.Fd()), unix.LOCK_EX)
}

// OpenFile opens the file at path with the os package's flags and locks it exclusively, until it is
// closed. It creates a file of mode 0600 if flags contain O_CREATE. A symbolic link is an error.
// If others keep it locked for longer than a look at it takes, the error wraps ErrLocked.
func OpenFile(path string, flags int) (*os.File, error) {
	fd, err := lockAt(unix.AT_FDCWD, path, flags, unix.LOCK_EX, 40*time.Millisecond, func(int) error { return nil })
	if err != nil {
		var step *stepError
		if errors.As(err, &step) {
			return nil, &fs.PathError{Op: step.op, Path: path, Err: step.err}
		}
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// checkOwn returns an error unless an open file is a regular file of the user.
func (d *Dir) checkOwn(fd int, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, d.explain("stat", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s: not a regular file of this user: %w", filepath.Join(d.path, name), ErrForeign)
	}
	return &st, nil
}

// isOwnEmpty reports whether name is an empty file of the user.
func (d *Dir) isOwnEmpty(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && int(st.Uid) == os.Geteuid() &&
		st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size == 0
}

func (d *Dir) explain(op, name string, err error) error {
	var st unix.Stat_t
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("a symbolic link: %w", ErrForeign)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		err = fmt.Errorf("not a regular file: %w", ErrForeign)
	case errors.Is(err, unix.EACCES) && unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("owned by another user: %w", ErrForeign)
	case errors.Is(err, unix.ENOENT) && d.Gone():
		err = fmt.Errorf("the directory was removed: %w", err)
	}
	return &fs.PathError{Op: op, Path: filepath.Join(d.path, name), Err: err}
}

// Fd returns the descriptor, which the Lock keeps.
func (l *Lock) Fd() int { return l.fd }

// Release unlocks and closes the file.
func (l *Lock) Release() error {
	err := release(l.fd)
	l.fd = -1 // another file may get the number
	return err
}

// release unlocks and closes a file. Closing alone is not enough: until its exec, a child being
// started has the descriptor too.
func release(fd int) error {
	_ = fdio.Flock(fd, unix.LOCK_UN)
	return unix.Close(fd)
}

// RemoveIfLast releases the lock. If no other process has locked the file, it first removes the
// name and returns true. before, if not nil, is called before that, while the file is exclusively
// locked, to remove what belongs to it.
func (l *Lock) RemoveIfLast(before func() error) (removed bool, err error) {
	// The change from shared to exclusive is not atomic: a sweep may remove the file in between.
	if fdio.Flock(l.fd, unix.LOCK_EX|unix.LOCK_NB) == nil && tempfile.Leads(l.dir.fd, l.name, l.fd) {
		removed = true
		fault.Point("lockfile.last")
		if before != nil {
			err = before()
		}
		err = errors.Join(err, l.dir.Remove(l.name))
		fault.Point("lockfile.left")
	}
	return removed, errors.Join(err, l.Release())
}
