//go:build unix

package lockfile

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// Sweep removes the file of that name if nobody has locked it, and reports whether it did. It never
// waits. Locked files, missing files and anything but a regular file of the user are not errors.
func (d *Dir) Sweep(name string) (removed bool, err error) { return d.SweepWith(name, nil) }

// SweepWith is Sweep that calls before while the file is exclusively locked, before it removes the
// name.
func (d *Dir) SweepWith(name string, before func(fd int) error) (removed bool, err error) {
	l, err := d.lockUnused(name)
	if l == nil {
		return false, err
	}
	fault.Point("lockfile.sweeping")
	if before != nil {
		if err := before(l.fd); err != nil {
			return false, errors.Join(err, l.Release())
		}
	}
	err = d.Remove(name)
	if errors.Is(err, fs.ErrNotExist) { // its writer, which failed to lock it, has removed the hidden name
		return false, l.Release()
	}
	fault.Point("lockfile.swept")
	return err == nil, errors.Join(err, l.Release())
}

// Unused reports whether Sweep would remove the file of that name.
func (d *Dir) Unused(name string) (bool, error) {
	l, err := d.lockUnused(name)
	if l == nil {
		return false, err
	}
	return true, l.Release()
}

// lockUnused locks a file for Sweep. It returns nil if Sweep leaves the file alone.
func (d *Dir) lockUnused(name string) (*Lock, error) {
	if name == marker {
		return nil, nil
	}
	l, err := d.lock(name, unix.O_RDONLY, unix.LOCK_EX)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrLocked), errors.Is(err, ErrForeign),
		errors.Is(err, fs.ErrPermission):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return l, nil
}

// SweepSome sweeps the next n names of the directory, round after round, and returns how many it
// removed. A caller that does so whenever it creates a file keeps the number of files of killed
// processes bounded, at a bounded cost. With n below 1 it does nothing.
func (d *Dir) SweepSome(n int) (removed int, err error) {
	if n < 1 {
		return 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cursor == nil {
		if d.cursor, err = d.open(); err != nil {
			return 0, err
		}
	}
	names, err := d.cursor.Readdirnames(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err != nil || len(names) < n {
		err = errors.Join(err, d.cursor.Close())
		d.cursor = nil
	}
	for _, name := range names {
		gone, err1 := d.Sweep(name)
		if gone {
			removed++
		}
		err = errors.Join(err, err1)
	}
	return removed, err
}
