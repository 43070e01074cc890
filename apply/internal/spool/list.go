package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leat/apply/outcome"
)

// Info describes a spool that a run left or is writing.
type Info struct {
	Path   string
	Output string // path or URL of the output; "" if the file does not contain it
	// Blocks of Total are in the file. Both are 0 if it has no complete header.
	Blocks, Total int
	Bytes         int64
	ModTime       time.Time
	InUse         bool // a run is writing it
}

// List returns the spools of this user in a directory. It does not search subdirectories. With an
// error it also returns those before.
func List(ctx context.Context, dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory %s can't be read: %w", dir, pathCause(err))
	}
	var list []Info
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		s, err := inspect(ctx, filepath.Join(dir, e.Name()))
		if err != nil {
			return list, err
		}
		if s != nil {
			list = append(list, *s)
		}
	}
	return list, nil
}

// inspect describes the file at path; it returns nil if the file is gone, is not a spool, or
// belongs to another user.
func inspect(ctx context.Context, path string) (*Info, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !st.Mode().IsRegular() || ok && int(sys.Uid) != os.Geteuid() {
		return nil, nil
	}
	s := &Info{Path: path, Bytes: st.Size(), ModTime: st.ModTime()}
	var h *Header
	if st.Size() > 0 {
		h, err = ReadHeader(f, st.Size())
		if errors.Is(err, outcome.ErrNotSpool) {
			return nil, nil
		}
	}
	if h != nil {
		s.Output, s.Total = h.Output, h.Blocks-h.Skipped
		blocks, err := NewScanner(f, h).blocks(ctx, h.Blocks)
		if err != nil {
			return nil, err
		}
		s.Blocks = len(blocks)
	}
	if s.InUse, err = locked(f); err != nil {
		return nil, err
	}
	return s, nil
}

// locked reports whether a run holds a spool's lock. The lock that it takes itself lasts until f is
// closed.
func locked(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return false, nil
}

// Blocks returns the numbers of the blocks in the spool at path, which has this header: nil if a
// run is writing it. It does not check their data.
func Blocks(ctx context.Context, path string, h *Header) (map[uint64]bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if inUse, err := locked(f); inUse || err != nil {
		return nil, err
	}
	return NewScanner(f, h).blocks(ctx, h.Blocks)
}

// pathCause returns the error of a file operation without the operation and the name.
func pathCause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
