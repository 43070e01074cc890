//go:build unix

package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// tempPrefix starts the names of unfinished files where the file system has no unnamed files;
// internal/lease uses the same for segments.
const tempPrefix = ".new-"

// file is an unfinished file: unnamed, so that the kernel frees it when this process ends, or with
// a hidden name. Its lock protects it from sweeps.
type file struct {
	dir  *lockfile.Dir
	fd   int
	temp string
}

// newFile creates an empty file in dir.
func newFile(dir *lockfile.Dir) (*file, error) {
	for {
		f := &file{dir: dir}
		var err error
		if f.fd, err = unnamed(dir.Fd()); errors.Is(err, errors.ErrUnsupported) {
			f.temp = tempPrefix + rand.Text()
			f.fd, err = openat(dir.Fd(), f.temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
		}
		if err != nil {
			return nil, err
		}
		fault.Point("stage.opened")
		err = flock(f.fd, unix.LOCK_SH|unix.LOCK_NB)
		busy := errors.Is(err, unix.EWOULDBLOCK)
		if busy {
			err = nil
		}
		if err == nil {
			err = unix.Fchmod(f.fd, 0o600) // whatever the umask
		}
		if err != nil {
			return nil, errors.Join(err, f.drop())
		}
		if !busy && (f.temp == "" || f.hasName()) {
			return f, nil
		}
		// A sweep removed it before it was locked.
		if err := f.drop(); err != nil {
			return nil, err
		}
	}
}

// hasName reports whether the file has a name.
func (f *file) hasName() bool {
	var st unix.Stat_t
	return unix.Fstat(f.fd, &st) == nil && st.Nlink > 0
}

// name links the file as name, which must not exist.
func (f *file) name(name string) error {
	if f.temp == "" {
		return link(f.fd, f.dir.Fd(), name)
	}
	if err := unix.Linkat(f.dir.Fd(), f.temp, f.dir.Fd(), name, 0); err != nil {
		return err
	}
	fault.Point("stage.named")
	return f.removeTemp()
}

func (f *file) removeTemp() error {
	temp := f.temp
	f.temp = ""
	if err := unix.Unlinkat(f.dir.Fd(), temp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing %s: %w", f.dir.FilePath(temp), err)
	}
	return nil
}

// drop unlocks and closes the file, and removes its hidden name.
func (f *file) drop() error {
	var err error
	if f.temp != "" {
		err = f.removeTemp()
	}
	_ = flock(f.fd, unix.LOCK_UN) // until its exec, a child being started has the descriptor too
	err = errors.Join(err, unix.Close(f.fd))
	f.fd = -1 // the number may soon be another file's
	return err
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func truncate(fd int, size int64) error {
	for {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// write writes all of b.
func write(fd int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n <= 0:
			return io.ErrShortWrite
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// read fills b, or reads to the end of the file and returns io.EOF.
func read(fd int, b []byte, at int64) (done int, err error) {
	for done < len(b) {
		n, err := unix.Pread(fd, b[done:], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case n <= 0:
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

// allocated returns the space that a file takes on the disk, in bytes.
func allocated(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks) * 512, nil
}

// length returns the length of a file in bytes.
func length(fd int) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Size, err
}
