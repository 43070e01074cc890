//go:build unix

package lockfile

import (
	"crypto/rand"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/tempfile"
)

// TempPrefix starts the hidden names of unfinished files on file systems that have no files without
// names. Sweep removes those of killed processes.
const TempPrefix = ".new-"

// CreateTemp creates an unfinished file in the directory, locked shared, which is not swept.
func (d *Dir) CreateTemp(perm uint32) (*tempfile.Locked, error) {
	return tempfile.CreateLocked(d.fd, &tempfile.LockedOptions{
		Perm:       perm,
		HiddenName: func() string { return TempPrefix + rand.Text() },
		Lock: func(fd int) (bool, error) {
			err := fdio.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
			if errors.Is(err, unix.EWOULDBLOCK) {
				return false, nil
			}
			return err == nil, err
		},
		Close: release,
	})
}

// Publish creates a file that is complete and locked (shared) when it appears. fill writes it
// through a descriptor that Publish keeps. A sweep removes all that a killed process leaves. If the
// name is taken, even by a file that no process has locked, the error is fs.ErrExist; of several
// processes that publish one name at the same time, one succeeds.
func (d *Dir) Publish(name string, perm uint32, fill func(fd int) error) (*Lock, error) {
	f, err := d.CreateTemp(perm)
	if err != nil {
		return nil, d.explain("create", name, err)
	}
	if fill != nil {
		if err := fill(f.FD); err != nil {
			return nil, errors.Join(err, f.Discard())
		}
	}
	fault.Point("lockfile.filled")
	if err := f.Publish(name); err != nil {
		return nil, errors.Join(d.explain("name", name, err), f.Discard())
	}
	return &Lock{dir: d, name: name, fd: f.FD}, nil
}

// LockOrPublish is LockShared for writing, or Publish where the file does not exist; created
// reports which.
func (d *Dir) LockOrPublish(name string, perm uint32, fill func(fd int) error) (l *Lock, created bool, err error) {
	for {
		if l, err = d.LockShared(name, true); !errors.Is(err, fs.ErrNotExist) {
			return l, false, err
		}
		if l, err = d.Publish(name, perm, fill); !errors.Is(err, fs.ErrExist) {
			return l, err == nil, err
		}
	}
}
