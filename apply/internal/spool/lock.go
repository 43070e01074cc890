package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// openLocked opens the file at path, creating it if necessary, and locks it exclusively.
func openLocked(label, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, writeError(label, path, err)
		}
		if locked, err := lockNamed(f, path); locked {
			return f, nil
		} else if err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, inUseError(label, path)
			}
			return nil, writeError(label, path, err)
		}
		f.Close()
	}
}

// lockNamed locks an open file and reports whether path still leads to it: the run that held the
// lock may have removed the name between our open and our lock.
func lockNamed(f *os.File, path string) (bool, error) {
	var err error
	for try := 0; ; try++ {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == 5 {
			break
		}
		time.Sleep(10 * time.Millisecond) // ListSpools holds a lock for an instant
	}
	if err != nil {
		return false, err
	}
	fault.Point("apply.locked")
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
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
