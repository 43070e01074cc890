package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"leat/apply/outcome"
	"leat/internal/lockfile"
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
	f, err := lockfile.OpenFile(path, os.O_RDWR)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, lockfile.ErrLocked):
		return inUseError(label, path)
	case err != nil:
		return fmt.Errorf("%s can't be removed: %w", path, pathCause(err))
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s can't be removed: it is not a regular file", path), f.Close())
	}
	if _, err := ReadHeader(f, st.Size()); st.Size() > 0 && errors.Is(err, outcome.ErrNotSpool) {
		return errors.Join(fmt.Errorf("%s can't be removed: %w", path, err), f.Close())
	}
	d.files = append(d.files, &File{f: f, path: path, label: label})
	d.list = append(d.list, Discarded{Output: output, Path: path, Bytes: st.Size()})
	return nil
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
