package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Discarded is a spool that was removed.
type Discarded struct {
	Output string // as given to Lock
	Path   string
	Bytes  int64
}

// Discard collects locked spools, and removes them all at once. Its zero value is ready to use.
type Discard struct {
	files []*File
	list  []Discarded // of the same files
}

// Lock locks the spool at path, if there is one. label is the output in messages.
func (d *Discard) Lock(path, output, label string) error {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s can't be removed: %w", path, pathCause(err))
		}
		st, err := f.Stat()
		if err != nil || !st.Mode().IsRegular() {
			return errors.Join(fmt.Errorf("%s can't be removed: it is not a regular file", path), f.Close())
		}
		if locked, err := lockNamed(f, path); locked {
			if _, err := ReadHeader(f, st.Size()); st.Size() > 0 && errors.Is(err, ErrNotSpool) {
				return errors.Join(fmt.Errorf("%s can't be removed: %w", path, err), f.Close())
			}
			d.files = append(d.files, &File{f: f, path: path, label: label})
			d.list = append(d.list, Discarded{Output: output, Path: path, Bytes: st.Size()})
			return nil
		} else if err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return inUseError(label, path)
			}
			return fmt.Errorf("%s can't be removed: %w", path, err)
		}
		f.Close()
	}
}

// Remove removes the locked spools and returns those that it could remove. It clears them all
// first, see File.clear.
func (d *Discard) Remove() (removed []Discarded, err error) {
	files := d.files
	d.files = nil
	for _, s := range files {
		if cerr := s.clear(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("%s can't be emptied: %w", s.path, pathCause(cerr)))
		}
	}
	for i, s := range files {
		if rerr := s.remove(); rerr != nil {
			err = errors.Join(err, fmt.Errorf("%s can't be removed: %w", s.path, pathCause(rerr)))
			continue
		}
		removed = append(removed, d.list[i])
	}
	return removed, err
}

// Close unlocks the spools that were not removed.
func (d *Discard) Close() error {
	var errs []error
	for _, s := range d.files {
		errs = append(errs, s.f.Close())
	}
	d.files = nil
	return errors.Join(errs...)
}
