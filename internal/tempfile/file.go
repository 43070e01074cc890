// Package tempfile makes files that get their name only when they are complete. A file is written
// without a name (O_TMPFILE), so that the kernel frees it with its process; on file systems that
// have no such files it is written under a hidden name.
//
//   - [File] replaces a file at a path: [File.Commit] renames over the old one. A process that is
//     killed earlier leaves the old file unchanged.
//   - [Locked] creates a file in a directory that is swept. It holds a lock until it has its name.
//
// Nothing is flushed: a committed file may be lost with the machine's power. Two processes that
// publish one name at the same time must exclude each other; otherwise one of them may return an
// error, but neither publishes an incomplete file.
package tempfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that is not visible yet. The embedded os.File is for writing and reading; Commit
// and Abort close it, and do nothing to a nil File.
type File struct {
	*os.File
	path  string // as the caller named it
	final string // where a symbolic link of that name leads
	named bool   // it has the name hiddenName(final)
	done  bool
}

// Create starts a file that is to be published as path. Its permissions are those of the file that
// it replaces, else perm less the process's umask. A symbolic link stays, and its target is
// replaced. A missing or read-only directory and a path that is not a regular file are errors.
func Create(path string, perm fs.FileMode) (*File, error) {
	if path == "" {
		return nil, errors.New("empty file name")
	}
	f := &File{path: path, final: followLinks(path)}
	old, err := os.Stat(f.final)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, f.explain("looking at", err)
	case err == nil && old.IsDir():
		return nil, fmt.Errorf("%s is a directory; expected a file", path)
	case err == nil && !old.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file and can't be replaced", path)
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return nil, fmt.Errorf("%s names a directory; expected a file", path)
	}
	if f.File, err = createUnnamed(f.final, perm); errors.Is(err, errors.ErrUnsupported) {
		f.named = true
		f.File, err = createNamed(hiddenName(f.final), perm)
	}
	if err != nil {
		return nil, f.explain("creating", err)
	}
	if old != nil {
		if err := f.File.Chmod(old.Mode().Perm()); err != nil {
			return nil, errors.Join(f.explain("setting the permissions of", err), f.Abort())
		}
	}
	return f, nil
}

// Commit publishes the file and closes it. After an error nothing is published, and nothing is
// left.
func (f *File) Commit() error {
	if f == nil {
		return nil
	}
	if f.done {
		return f.closedError()
	}
	if err := f.hide(); err != nil {
		return err
	}
	if err := os.Rename(hiddenName(f.final), f.final); err != nil {
		return errors.Join(f.explain("renaming", err), f.Abort())
	}
	return f.finish()
}

// hide gives an unnamed file its hidden name, since linkat can't replace another file.
func (f *File) hide() error {
	if f.named {
		return nil
	}
	if err := linkOver(f.File, hiddenName(f.final)); err != nil {
		return errors.Join(f.explain("naming", err), f.Abort())
	}
	f.named = true
	return nil
}

// finish closes a published file. Network file systems report failed writes here.
func (f *File) finish() error {
	f.done = true
	if err := f.File.Close(); err != nil {
		return f.explain("writing", err)
	}
	return nil
}

// Abort discards the file; a file that has its name stays unchanged. After Commit it does nothing,
// so it can be deferred.
func (f *File) Abort() error {
	if f == nil || f.done {
		return nil
	}
	f.done = true
	var err error
	if f.named {
		err = os.Remove(hiddenName(f.final))
	}
	return errors.Join(err, f.File.Close())
}

// Path returns the name that the file will have, as given to Create.
func (f *File) Path() string { return f.path }

func (f *File) closedError() error {
	return fmt.Errorf("%s: published or discarded before: %w", f.path, fs.ErrClosed)
}

// linkOver gives an unnamed file a name, replacing a file that was left there.
func linkOver(f *os.File, name string) error {
	for range 10 {
		err := link(int(f.Fd()), name)
		if !errors.Is(err, fs.ErrExist) {
			return os.NewSyscallError("linkat", err)
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return &fs.PathError{Op: "link", Path: name, Err: errors.New("another process publishes the same file")}
}

// createNamed creates a file with a name, replacing a file that was left there.
func createNamed(name string, perm fs.FileMode) (*os.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// followLinks returns where the last element of path leads. A dangling link names the file to be
// created.
func followLinks(path string) string {
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			// Not filepath.Join, which would drop "link/..".
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
	return path
}

// explain adds the path that the caller named to an error, in place of a hidden one.
func (f *File) explain(operation string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	if errors.As(err, &pe) {
		err = pe.Err
	} else if errors.As(err, &le) {
		err = le.Err
	}
	return fmt.Errorf("%s %s: %w", operation, f.path, err)
}
