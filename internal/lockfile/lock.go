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

	"leat/internal/fault"
)

// Lock is a lock on a named file, for as long as the process lives or until Release. It is a raw
// descriptor, which no collector closes: what is forgotten is held. One goroutine at a time may use
// it.
type Lock struct {
	dir  *Dir
	name string
	fd   int
	id   ID
}

// LockShared holds the file of that name together with others. It must exist (else fs.ErrNotExist), be a
// regular file and the user's own (else ErrForeign). With write it is opened for reading and
// writing. A file that someone holds alone for longer than a sweep takes is ErrLocked.
func (d *Dir) LockShared(name string, write bool) (*Lock, error) {
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	return d.open(name, flags, unix.LOCK_SH)
}

// Own holds the file of that name alone, opened for reading and writing. Where others hold it the
// error is ErrLocked.
func (d *Dir) LockExclusive(name string) (*Lock, error) {
	return d.open(name, unix.O_RDWR, unix.LOCK_EX)
}

// open opens and locks a file, making it (0600) if flags has O_CREAT.
func (d *Dir) open(name string, flags, how int) (*Lock, error) {
	wait := 20 * time.Microsecond
	for {
		// Not blocking, for what another put there may be a pipe.
		fd, err := openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, d.explain("open", name, err)
		}
		st, err := d.own(fd, name)
		if err != nil {
			unix.Close(fd)
			return nil, err
		}
		fault.Point("lockfile.opened")
		err = flock(fd, how|unix.LOCK_NB)
		switch {
		case err == nil && d.leads(name, idOf(st)):
			return &Lock{dir: d, name: name, fd: fd, id: idOf(st)}, nil
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			unix.Close(fd)
			return nil, d.explain("lock", name, err)
		}
		unix.Close(fd)
		if err == nil {
			continue // swept between our opening and locking it: see what the name leads to now
		}
		// A sweep holds a file for the length of three system calls; its process may be stopped in
		// between.
		if how == unix.LOCK_EX || wait > 100*time.Millisecond {
			return nil, fmt.Errorf("%s: %w", filepath.Join(d.path, name), ErrLocked)
		}
		time.Sleep(wait)
		wait *= 2
	}
}

// own checks that an open file is a regular one of the user's.
func (d *Dir) own(fd int, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, d.explain("stat", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s: not a regular file of this user: %w", filepath.Join(d.path, name), ErrForeign)
	}
	return &st, nil
}

// leads tells whether name leads to the file id.
func (d *Dir) leads(name string, id ID) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && idOf(&st) == id
}

// others tells whether name is another user's.
func (d *Dir) others(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && int(st.Uid) != os.Geteuid()
}

// ownEmpty tells whether name is an empty file of the user's.
func (d *Dir) ownEmpty(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(d.fd, name, &st,
		unix.AT_SYMLINK_NOFOLLOW) == nil && int(st.Uid) == os.Geteuid() && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		st.Size == 0
}

func (d *Dir) explain(op, name string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("a symbolic link: %w", ErrForeign)
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		err = fmt.Errorf("not a regular file: %w", ErrForeign)
	case errors.Is(err, unix.EACCES) && d.others(name):
		err = fmt.Errorf("another user's: %w", ErrForeign)
	case errors.Is(err, unix.ENOENT) && d.Gone():
		err = fmt.Errorf("the folder was removed: %w", err)
	}
	return &fs.PathError{Op: op, Path: filepath.Join(d.path, name), Err: err}
}

// Fd is the descriptor, which the Lock keeps.
func (h *Lock) Fd() int { return h.fd }

// ID is the file's.
func (h *Lock) ID() ID { return h.id }

// Name is the file's in its Dir.
func (h *Lock) Name() string { return h.name }

// Release ends the hold. The file stays.
func (h *Lock) Release() error {
	// Closing is not enough: a child that is being started has the descriptor too, until its exec.
	_ = flock(h.fd, unix.LOCK_UN)
	return h.close()
}

func (h *Lock) close() error {
	err := unix.Close(h.fd)
	h.fd = -1 // the number may be another file's soon
	return err
}

// RemoveIfLast ends the hold and, if nobody else has one, removes the file's name; it reports whether it
// did. before, if not nil, is called while the file is held alone, so that what belongs to it can
// be removed before its name is free.
func (h *Lock) RemoveIfLast(before func() error) (last bool, err error) {
	// The change from shared to exclusive is not atomic: a sweeper may come first, and then it
	// removes the file.
	if flock(h.fd, unix.LOCK_EX|unix.LOCK_NB) == nil && h.dir.leads(h.name, h.id) {
		last = true
		fault.Point("lockfile.last")
		if before != nil {
			err = before()
		}
		err = errors.Join(err, h.dir.Remove(h.name))
		fault.Point("lockfile.left")
	}
	return last, errors.Join(err, h.Release())
}

// Sweep removes the file of that name if nobody holds it, and reports whether it did. It never
// waits. What is held, what is gone, and what is no regular file of the user's stays as it is.
func (d *Dir) Sweep(name string) (removed bool, err error) {
	return d.SweepWith(name, nil)
}

// SweepWith is Sweep with something to do while the file is held alone, before its name goes.
func (d *Dir) SweepWith(name string, before func(fd int) error) (removed bool, err error) {
	if name == marker {
		return false, nil
	}
	h, err := d.open(name, unix.O_RDONLY, unix.LOCK_EX)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrLocked), errors.Is(err, ErrForeign),
		errors.Is(err, fs.ErrPermission):
		return false, nil
	case err != nil:
		return false, err
	}
	fault.Point("lockfile.sweeping")
	if before != nil {
		if err := before(h.fd); err != nil {
			return false, errors.Join(err, h.Release())
		}
	}
	err = d.Remove(name)
	if errors.Is(err, fs.ErrNotExist) { // a hidden file, which its writer takes back when it can't lock it
		return false, h.Release()
	}
	fault.Point("lockfile.swept")
	return err == nil, errors.Join(err, h.Release())
}
