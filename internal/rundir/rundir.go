// Package rundir makes the temporary directories of runs, which later runs remove if their owner
// was killed.
package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"leat/internal/lockfile"
)

// Dir is a temporary directory of a run. A locked file in it, whose lock ends with the process,
// marks it as in use.
type Dir struct {
	Path string
	lock *os.File
}

const (
	// Prefix begins the names of these directories.
	Prefix = ".leat-run-"
	// Lockfile is the name of the file in it that is locked.
	Lockfile = "lock"
)

// Make makes a directory of mode 0700 in base, and removes those that killed runs left there.
func Make(base string) (*Dir, error) {
	Sweep(base)
	for {
		path, err := os.MkdirTemp(base, Prefix+"*")
		if err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(path, Lockfile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		locked := false
		if err == nil {
			locked, err = lockfile.TryLock(f)
		}
		if locked {
			return &Dir{path, f}, nil
		}
		if f != nil {
			f.Close()
		}
		// Another run may have swept it before it was locked.
		if err != nil && !errors.Is(err, lockfile.ErrLocked) && !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("%s can't be locked: %w", path, pathCause(err)), os.RemoveAll(path))
		}
	}
}

// Remove removes the directory, its lockfile last and after closing it: a network file system keeps
// a file that is removed while open, and its directory with it.
func (s *Dir) Remove() error {
	list, err := os.ReadDir(s.Path)
	errs := []error{err}
	for _, e := range list {
		if e.Name() != Lockfile {
			errs = append(errs, os.RemoveAll(filepath.Join(s.Path, e.Name())))
		}
	}
	return errors.Join(append(errs, s.lock.Close(), os.RemoveAll(s.Path))...)
}

// sweepAfter is the age from which a directory without a lockfile counts as abandoned: a new one
// has none for an instant.
const sweepAfter = time.Hour

// Sweep removes directories whose run has ended.
func Sweep(base string) {
	list, err := filepath.Glob(filepath.Join(globQuote(base), Prefix+"*"))
	if err != nil {
		return
	}
	for _, path := range list {
		f, err := lockfile.OpenFile(filepath.Join(path, Lockfile), os.O_RDWR)
		if errors.Is(err, os.ErrNotExist) {
			if st, err := os.Lstat(path); err == nil && st.IsDir() && time.Since(st.ModTime()) > sweepAfter {
				_ = os.RemoveAll(path)
			}
			continue
		}
		if err != nil {
			continue // in use
		}
		_ = os.RemoveAll(path) // those of other users can't be removed
		f.Close()
	}
}

// globQuote escapes a path for use in a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// pathCause returns the error of a file operation without the operation and the name.
func pathCause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
