//go:build unix

package tempfile

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
)

// Locked is a file in an open directory that has no name yet, or a hidden one. Its lock protects it
// from sweeps of the directory, which remove files that nobody has locked.
type Locked struct {
	FD     int
	dir    int
	hidden string // "" if it has no name
	close  func(fd int) error
}

// LockedOptions say how CreateLocked makes a file. All fields are required.
type LockedOptions struct {
	Perm uint32 // whatever the umask
	// HiddenName returns a new name at each call: a sweep that has seen a file before it was locked
	// may remove the name later, and must not remove another file.
	HiddenName func() string
	Lock       func(fd int) (bool, error) // locks the file without waiting; false if a sweep has locked it
	Close      func(fd int) error         // unlocks and closes the file
}

// CreateLocked creates an empty, locked file.
func CreateLocked(dir int, o *LockedOptions) (*Locked, error) {
	for {
		f, err := createLocked(dir, o)
		if f != nil || err != nil {
			return f, err
		}
	}
}

// createLocked returns nil if a sweep removed the file before it was locked.
func createLocked(dir int, o *LockedOptions) (*Locked, error) {
	f := &Locked{dir: dir, close: o.Close}
	var err error
	if f.FD, err = unnamed(dir, ".", o.Perm); errors.Is(err, errors.ErrUnsupported) {
		f.hidden = o.HiddenName()
		f.FD, err = fdio.Open(dir, f.hidden, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, o.Perm)
	}
	if err != nil {
		return nil, err
	}
	fault.Point("tempfile.created")
	locked, err := o.Lock(f.FD)
	if err == nil {
		err = unix.Fchmod(f.FD, o.Perm)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking a new file: %w", err), f.Discard())
	}
	fault.Point("tempfile.locked")
	if !locked || f.hidden != "" && !Leads(dir, f.hidden, f.FD) {
		return nil, f.Discard()
	}
	return f, nil
}

// HiddenName returns the file's hidden name, or "".
func (f *Locked) HiddenName() string { return f.hidden }

// Publish gives the file its name, which must be free (else fs.ErrExist). The file stays open and
// locked.
func (f *Locked) Publish(name string) error {
	if f.hidden == "" {
		if err := Link(f.FD, f.dir, name); err != nil {
			return err
		}
		fault.Point("tempfile.linked")
		return nil
	}
	if err := unix.Linkat(f.dir, f.hidden, f.dir, name, 0); err != nil {
		return err
	}
	fault.Point("tempfile.linked")
	return f.unhide()
}

// unhide removes the hidden name, unless it leads to another file.
func (f *Locked) unhide() error {
	hidden := f.hidden
	f.hidden = ""
	if hidden == "" || !Leads(f.dir, hidden, f.FD) {
		return nil
	}
	if err := unix.Unlinkat(f.dir, hidden, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: hidden, Err: err}
	}
	return nil
}

// Discard removes the hidden name and closes the file.
func (f *Locked) Discard() error {
	err := errors.Join(f.unhide(), f.close(f.FD))
	f.FD = -1 // another file may get the number
	return err
}

// Leads reports whether a name in an open directory leads to an open file.
func Leads(dir int, name string, fd int) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(dir, name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstat(fd, &b) == nil &&
		a.Dev == b.Dev && a.Ino == b.Ino
}
