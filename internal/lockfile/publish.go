//go:build unix

package lockfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// newPrefix begins the names of files that are being written where the file system has no unnamed
// ones. A killed writer's is swept like any other.
const newPrefix = ".new-"

// Publish makes a file that appears under name complete and held by the caller (shared). fill
// writes it, through a descriptor that stays Publish's; a kill before the end leaves nothing that a
// sweep does not remove. A name that is taken, also by a file that nobody holds, is fs.ErrExist; of
// those who publish one name at the same time, one succeeds.
func (d *Dir) Publish(name string, perm uint32, fill func(fd int) error) (*Lock, error) {
	for {
		h, err := d.publish(name, perm, fill)
		// A sweeper took the file before it was locked, which can only happen to one that has a
		// name while it is written.
		if !errors.Is(err, errSwept) {
			return h, err
		}
	}
}

var errSwept = errors.New("swept while it was made")

func (d *Dir) publish(name string, perm uint32, fill func(fd int) error) (_ *Lock, err error) {
	temp := ""
	fd, err := d.unnamed(perm)
	if errors.Is(err, errors.ErrUnsupported) {
		temp = newPrefix + rand.Text()
		fd, err = openat(d.fd, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	}
	if err != nil {
		return nil, d.explain("create", name, err)
	}
	defer func() {
		if temp != "" {
			_ = unix.Unlinkat(d.fd, temp, 0)
		}
		if err != nil {
			unix.Close(fd)
		}
	}()
	fault.Point("lockfile.created")
	// Before the name, so that no sweep comes between.
	if err := flock(fd, unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errSwept
	} else if err != nil {
		return nil, d.explain("lock", name, err)
	}
	fault.Point("lockfile.locked")
	var st unix.Stat_t
	if err := unix.Fchmod(fd, perm); err != nil { // whatever the umask
		return nil, d.explain("chmod", name, err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, d.explain("stat", name, err)
	}
	if temp != "" && st.Nlink == 0 {
		return nil, errSwept
	}
	if fill != nil {
		if err := fill(fd); err != nil {
			return nil, err
		}
	}
	fault.Point("lockfile.filled")
	if temp != "" {
		err = unix.Linkat(d.fd, temp, d.fd, name, 0)
	} else {
		err = linkUnnamed(fd, d.fd, name)
	}
	if err != nil {
		return nil, d.explain("name", name, err)
	}
	fault.Point("lockfile.linked")
	return &Lock{dir: d, name: name, fd: fd, id: idOf(&st)}, nil
}

// Join shares the file of that name, or publishes it where there is none; created tells which.
func (d *Dir) LockOrPublish(name string, perm uint32, fill func(fd int) error) (h *Lock, created bool, err error) {
	for {
		if h, err = d.LockShared(name, true); !errors.Is(err, fs.ErrNotExist) {
			return h, false, err
		}
		if h, err = d.Publish(name, perm, fill); !errors.Is(err, fs.ErrExist) {
			return h, err == nil, err
		}
	}
}

// File is where a name lies.
func (d *Dir) FilePath(name string) string { return filepath.Join(d.path, name) }
