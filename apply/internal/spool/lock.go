package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/lockfile"
)

// openLocked opens the file at path, creating it if necessary, and locks it exclusively.
func openLocked(label, path string) (*os.File, error) {
	f, err := lockfile.OpenFile(path, os.O_RDWR|os.O_CREATE)
	switch {
	case errors.Is(err, lockfile.ErrLocked):
		return nil, inUseError(label, path)
	case err != nil:
		return nil, WriteError(label, path, err)
	}
	return f, nil
}

// inUseError returns the error for an output that another run is writing.
func inUseError(label, path string) error {
	return fmt.Errorf("%s is %w (it holds %s)", label, outcome.ErrInUse, path)
}

// WriteError words an error of writing an output, or its spool, at path for users.
func WriteError(label, path string, err error) error {
	var pe *os.PathError
	var se *os.SyscallError
	if errors.As(err, &pe) {
		err = pe.Err
	} else if errors.As(err, &se) {
		err = se.Err
	}
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return jobspec.Errorf("Output.TempDir", "%s: the disk of %s is full: %w", label, dir, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: the directory %s does not exist", label, dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: the directory %s can't be written to: %w", label, dir, err)
	}
	return fmt.Errorf("%s: writing %s: %w", label, path, err)
}
