//go:build unix

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/localdir"
	"leat/internal/tempfile"
)

// Open opens the cache at path, or creates one of n empty slots atomically, so that processes that
// do so at the same time all get the same one. The cache stays after all have closed it. An
// existing one must have n slots and, if given, the same MaxBytes (otherwise ErrMismatch), belong
// to the user (ErrForeign), and not be a symbolic link. Another file is left unchanged: ErrFormat.
func Open(path string, n int64, opts *Options) (*Cache, error) {
	o := orDefault(opts)
	if err := o.checkOpen(n); err != nil {
		return nil, err
	}
	abs, name, dir, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	if err := checkName(path, name); err != nil {
		return nil, err
	}
	if !o.AllowRemote && localdir.Of(dir).Kind != localdir.Local {
		return nil, fmt.Errorf("%s: %w: processes may not see each other's entries", path, ErrRemote)
	}
	for range 100 {
		fd, err := openNamed(dir, name, unix.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			fd, err = createNamed(dir, abs, name, n, &o)
			if errors.Is(err, fs.ErrExist) {
				continue // another process was faster
			}
			if err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, explainOpen(path, err)
		}
		if !tempfile.Leads(dir, name, fd) { // removed meanwhile
			if err := closeLocked(fd); err != nil {
				return nil, err
			}
			continue
		}
		return join(fd, abs, n, o)
	}
	return nil, fmt.Errorf("%s: created and removed by other processes 100 times", path)
}

// join opens a named cache and checks that it is as requested. It owns fd.
func join(fd int, path string, n int64, o Options) (*Cache, error) {
	h, _, _, err := readHeader(fd)
	if err == nil {
		switch {
		case h.n != n:
			err = fmt.Errorf("%w: it has %d slots, expected %d", ErrMismatch, h.n, n)
		case o.MaxBytes != 0 && o.MaxBytes != h.maxBytes:
			err = fmt.Errorf("%w: its MaxBytes is %d, expected %d", ErrMismatch, h.maxBytes, o.MaxBytes)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), closeLocked(fd))
	}
	c, err := open(fd, path, o, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// openNamed opens a file of the user and takes the hold lock. The error is fs.ErrNotExist if there
// is not a file.
func openNamed(dir int, name string, flags int) (int, error) {
	// Not blocking: the file may be a pipe.
	fd, err := fdio.Open(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	err = checkOwn(fd)
	if err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o022 != 0 {
			err = fmt.Errorf("%w: other users may write to it (mode %04o, expected 0600)", ErrForeign, st.Mode&0o7777)
		}
	}
	if err == nil {
		err = hold(fd)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// createNamed creates a cache and links it as name. The error is fs.ErrExist if the name was taken
// meanwhile.
func createNamed(dir int, path, name string, n int64, o *Options) (fd int, err error) {
	d, err := newTempFile(dir, func() string { return newTempName(name) })
	if err != nil {
		return -1, localdir.Explain(filepath.Dir(path), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Discard())
		}
	}()
	if err := format(d.FD, filepath.Dir(path), n, o, 0); err != nil {
		return -1, err
	}
	// The name must not reach the disk before the first page.
	if err := flush(d.FD); err != nil {
		return -1, localdir.Explain(filepath.Dir(path), err)
	}
	if d.HiddenName() != "" {
		_ = sweep(dir, tempsOf(name)) // leftovers do no harm
	}
	fault.Point("cache.formatted")
	if err := d.Publish(name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return -1, err
		}
		return -1, localdir.Explain(filepath.Dir(path), err)
	}
	fault.Point("cache.named")
	return d.FD, nil
}

// Load opens a file that Preserve made, for reading: it is frozen. It may belong to another user
// and be anywhere; on a network file system it must not change while it is open. The error is
// ErrFormat if the cache was not preserved.
func Load(path string, opts *Options) (*Cache, error) {
	o := orDefault(opts)
	err := o.validate()
	if o.Dir != "" || o.MaxBytes != 0 || o.Durability != DurabilityNone {
		err = errors.Join(err, errors.New("Load does not accept Dir, MaxBytes or Durability"))
	}
	if err != nil {
		return nil, err
	}
	abs, name, dir, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := fdio.Open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	_, page, _, err := readHeader(fd)
	if err == nil {
		if _, sealed := parseSeal(page); !sealed {
			err = fmt.Errorf("%w: it was not preserved", ErrFormat)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), unix.Close(fd))
	}
	// without an error: sweeps ignore preserved files, and network file systems may not lock
	_, _ = lock(fd, lockHold, shared)
	c, err := open(fd, abs, o, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// explainOpen adds the path and what was expected to an error of an existing file.
func explainOpen(path string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: it is a symbolic link", ErrForeign)
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		err = fmt.Errorf("%w: it is not a regular file", ErrFormat)
	}
	return fmt.Errorf("%s: %w", path, err)
}
