package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// openLocked opens the file at path, creating it if necessary, and locks it exclusively.
func openLocked(label, path string) (*os.File, error) {
	f, err := lockfile.OpenFile(path, os.O_RDWR|os.O_CREATE)
	switch {
	case errors.Is(err, lockfile.ErrLocked):
		return nil, inUseError(label, path)
	case err != nil:
		return nil, writeError(label, path, err)
	}
	return f, nil
}

// inUseError returns the error for an output that another run is writing.
func inUseError(label, path string) error {
	return fmt.Errorf("%s is being written by another run of leat (it holds %s): wait for it or end it", label, path)
}

// writeError words an error of the spool for users.
func writeError(label, path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%s: the disk of %s is full: free some space, or keep the unfinished output elsewhere (--tmpdir) (%w)", label, dir, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: the folder %s does not exist: make it first", label, dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: the folder %s can't be written to: %w", label, dir, err)
	}
	return fmt.Errorf("%s: writing %s: %w", label, path, err)
}
