//go:build unix

package lockfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Mode is how a range is locked.
type Mode int

// What [Ranges.Probe] finds.
const (
	Free  Mode = iota
	Read       // at least one other reads it
	Write      // another has it alone
)

// Ranges are locks on numbers from 0 to 1<<63-1: on byte ranges of an empty file. All that one
// Ranges takes belongs to it together: its own ranges never stand in its way, those of another
// Ranges do, in this process or any other (Linux's open file description locks). They end with
// Close or the process. A Ranges is safe for concurrent use, but does not keep goroutines apart.
type Ranges struct {
	path string
	fd   int
	id   ID
}

// OpenRanges opens the file of that name for locks, making it (0600) where it is missing. Nobody
// holds it: it must lie in a folder that is never swept. A hold would cost each one who opens it a
// look at the holds of all others, as the kernel keeps them in a list.
func (d *Dir) OpenRanges(name string) (*Ranges, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := openat(d.fd, name, flags, 0o600)
	if errors.Is(err, unix.EACCES) && d.ownEmpty(name) {
		// Made under an umask that takes the owner's rights, by a process that was killed before it
		// mended that.
		if err = unix.Fchmodat(d.fd, name, 0o600, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			fd, err = openat(d.fd, name, flags, 0o600)
		}
	}
	if err != nil {
		return nil, d.explain("open", name, err)
	}
	st, err := d.own(fd, name)
	if err == nil && st.Mode&0o777 != 0o600 {
		err = unix.Fchmod(fd, 0o600)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Ranges{path: d.FilePath(name), fd: fd, id: idOf(st)}, nil
}

// Probe tells how the numbers of the file of that name are held, without holding the file. A name
// that is not there is fs.ErrNotExist.
func (d *Dir) Probe(name string, first, n int64) (Mode, error) {
	fd, err := openat(d.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return Free, d.explain("open", name, err)
	}
	defer unix.Close(fd)
	return (&Ranges{path: d.FilePath(name), fd: fd}).Probe(first, n)
}

// Ranges returns locks on the numbers of a file that is open as fd, which may have no name yet, and
// stays the caller's. They are of a description of their own: they end with the Ranges, not with
// fd.
func (d *Dir) Ranges(fd int, name string) (*Ranges, error) {
	again, err := reopen(fd)
	if err != nil {
		return nil, d.explain("open", name, err)
	}
	st, err := d.own(again, name)
	if err != nil {
		unix.Close(again)
		return nil, err
	}
	return &Ranges{path: d.FilePath(name), fd: again, id: idOf(st)}, nil
}

// Gone reports whether the file was removed: those who come now lock another one.
func (r *Ranges) Gone() bool {
	var st unix.Stat_t
	return unix.Fstat(r.fd, &st) != nil || st.Nlink == 0
}

// Close ends all of its locks.
func (r *Ranges) Close() error {
	// Closing is not enough: a child that is being started has the descriptor too, until its exec.
	_ = r.lock(Free, 0, 0) // 0 numbers are all
	err := unix.Close(r.fd)
	r.fd = -1 // the number may be another file's soon
	return err
}
