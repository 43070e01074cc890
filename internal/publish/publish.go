// Package publish makes a file appear under its name only when it is whole. A [File] is written
// without a name, or under a hidden one; [File.Commit] puts it in the place of whatever had the
// name before, in one step. A process that is killed earlier leaves the old file as it was.
//
// It does not promise that a committed file outlives a loss of power: nothing is flushed to the
// disk. Two processes that publish one name at the same time must exclude each other; one of them
// may see an error otherwise, never half a file.
package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unicode/utf8"
)

// File is a file that is not visible yet. The embedded os.File is for writing and reading; it is
// closed by Commit and Abort.
type File struct {
	*os.File
	path  string // as the caller named it
	final string // where a symbolic link of that name leads
	named bool   // it stands under hiddenName(final)
	done  bool
}

// Create starts a file that is to be published as path. Its permissions are perm less the process's
// umask, or those of the file that it replaces. A symbolic link is followed: it stays, and its
// target is replaced. A folder that is missing or can't be written to, and a path that is no
// regular file, are errors here.
func Create(path string, perm fs.FileMode) (*File, error) {
	if path == "" {
		return nil, errors.New("no file name given")
	}
	f := &File{path: path, final: followLinks(path)}
	old, err := os.Stat(f.final)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, f.explain("look at", err)
	case err == nil && old.IsDir():
		return nil, fmt.Errorf("%s is a directory, not a file: give the name of a file in it", path)
	case err == nil && !old.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file and can't be replaced by one: give another name", path)
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return nil, fmt.Errorf("%s names a folder, not a file: give the name of a file in it", path)
	}
	if f.File, err = createUnnamed(f.final, perm); errors.Is(err, errors.ErrUnsupported) {
		f.named = true
		f.File, err = createNamed(hiddenName(f.final), perm)
	}
	if err != nil {
		return nil, f.explain("create", err)
	}
	if old != nil {
		if err := f.File.Chmod(old.Mode().Perm()); err != nil {
			return nil, errors.Join(f.explain("set the permissions of", err), f.Abort())
		}
	}
	return f, nil
}

// Commit publishes the file and closes it. After an error nothing is published, and no trace is
// left.
func (f *File) Commit() error {
	if f.done {
		return fmt.Errorf("%s: published or given up before: %w", f.path, fs.ErrClosed)
	}
	hidden := hiddenName(f.final)
	if !f.named {
		if err := link(f.File, hidden); err != nil {
			return errors.Join(f.explain("name", err), f.Abort())
		}
		f.named = true
	}
	if err := os.Rename(hidden, f.final); err != nil {
		return errors.Join(f.explain("rename", err), f.Abort())
	}
	f.done = true
	if err := f.File.Close(); err != nil { // where network file systems tell of failed writes
		return f.explain("write", err)
	}
	return nil
}

// Abort gives the file up; what has its name stays as it is. After Commit it does nothing, so that
// it can be deferred.
func (f *File) Abort() error {
	if f.done {
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

// hiddenName is the name that a file has, for a moment or until it is published, beside its final
// one. It is fixed, so that one left by a killed process is replaced by the next.
func hiddenName(final string) string { return HiddenName(final, ".leat-new") }

// maxName is the most bytes of a file name on all usual file systems.
const maxName = 255

// HiddenName returns ".NAME" and suffix, in the directory of path, for NAME the last element of
// path. Of a NAME that makes this too long the end gives way to a checksum of all of it, so that
// names which begin alike stay apart.
func HiddenName(path, suffix string) string {
	dir, name := filepath.Split(path)
	if most := maxName - 1 - len(suffix); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		end := "~" + hex.EncodeToString(sum[:8])
		name = cutName(name, most-len(end)) + end
	}
	return dir + "." + name + suffix
}

// cutName returns the first most bytes of name, or fewer, so that no character is split: some file
// systems refuse names that are not UTF-8.
func cutName(name string, most int) string {
	for n := most; n > most-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(name[n]) {
			return name[:n]
		}
	}
	return name[:most]
}

// createNamed makes a file under a name of its own, in place of one that was left there.
func createNamed(name string, perm fs.FileMode) (*os.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

// followLinks returns where the last element of path leads. A link that leads nowhere names the
// file to be made.
func followLinks(path string) string {
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			// Not filepath.Join, which would take "link/.." for nothing.
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
	return path
}

// explain says what could not be done and what to do about it. The cause is last.
func (f *File) explain(what string, err error) error {
	dir := filepath.Dir(f.final)
	var cause error = err
	var pe *fs.PathError
	var le *os.LinkError
	if errors.As(err, &pe) {
		cause = pe.Err
	} else if errors.As(err, &le) {
		cause = le.Err
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %s is not a folder: give a path in one (%w)", f.path, dir, cause)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%s: the name is too long: give a shorter one (%w)", f.path, cause)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: the folder %s does not exist: create it first (%w)", f.path, dir, cause)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: the file system of %s is read-only: write elsewhere (%w)", f.path, dir, cause)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the folder %s can't be written to: change its permissions or write elsewhere (%w)",
			f.path, dir, cause)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: no space is left in %s: free some or write elsewhere (%w)", f.path, dir, cause)
	}
	return fmt.Errorf("%s: can't %s the file: %w", f.path, what, cause)
}
