package apply

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

	"leat/internal/gdal"
)

// SpoolFile describes a file that holds the finished blocks of an unfinished output.
type SpoolFile struct {
	Path   string
	Output string // path or URL of the output; "" if the file does not contain it
	// Blocks of Total are in the file. Both are 0 if it has no complete header.
	Blocks, Total int
	Bytes         int64
	ModTime       time.Time
	InUse         bool // a run is writing it
}

// ListSpools returns the spools in a directory that runs of this user left or are writing. It does
// not search subdirectories.
func ListSpools(ctx context.Context, dir string) ([]SpoolFile, error) {
	names, err := spoolNames(dir)
	if err != nil {
		return nil, err
	}
	var list []SpoolFile
	for _, path := range names {
		s, err := describeSpool(ctx, path)
		if err != nil {
			return list, err
		}
		if s != nil {
			list = append(list, *s)
		}
	}
	return list, nil
}

// DiscardSpools removes the spools, and incomplete files of GDAL formats, that failed runs of this
// user left in a directory. It keeps those that a run is writing, does not search subdirectories,
// and does not touch finished outputs. With an error it also returns what it had removed.
func DiscardSpools(ctx context.Context, dir string) (list []Discarded, err error) {
	all, err := ListSpools(ctx, dir)
	if err != nil {
		return nil, err
	}
	var spools discarding
	defer func() { err = errors.Join(err, spools.close()) }()
	var errs []error
	inUse := map[string]bool{}
	for _, s := range all {
		if s.InUse {
			inUse[s.Path] = true
			continue
		}
		if err := spools.lock(s.Path, s.Output, s.Path); err != nil {
			errs = append(errs, err)
		}
	}
	outputs, err := gdal.FindLeft(dir)
	errs = append(errs, err)
	for _, output := range outputs {
		if inUse[spoolPath(output, "")] {
			continue
		}
		d := Discarded{Output: output}
		d.Path, d.Bytes, err = gdal.RemoveLeft(output)
		if errs = append(errs, err); d.Path != "" {
			list = append(list, d)
		}
	}
	removed, err := spools.remove()
	sweepRunDirectories(dir)
	return append(list, removed...), errors.Join(append(errs, err)...)
}

// spoolNames returns the paths of the files in dir that are named like spools.
func spoolNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory %s can't be read: %w", dir, bare(err))
	}
	var list []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), spoolSuffix) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list, nil
}

// describeSpool describes the file at path; it returns nil if the file is gone, is no spool, or
// belongs to another user.
func describeSpool(ctx context.Context, path string) (*SpoolFile, error) {
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
	s := &SpoolFile{Path: path, Bytes: st.Size(), ModTime: st.ModTime()}
	var h *header
	if st.Size() > 0 {
		h, err = readHeader(f, st.Size())
		if errors.Is(err, errNotSpool) {
			return nil, nil
		}
	}
	if h != nil {
		s.Output, s.Total = h.Path, h.Blocks
		blocks, err := blocksIn(ctx, f, h)
		if err != nil {
			return nil, err
		}
		s.Blocks = len(blocks)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); { // until f is closed
	case errors.Is(err, unix.EWOULDBLOCK):
		s.InUse = true
	case err != nil:
		return nil, &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	return s, nil
}

// blocksIn returns the numbers of the blocks in a spool. It reads only the heads of records: a
// block whose data is damaged counts.
func blocksIn(ctx context.Context, f *os.File, h *header) (map[uint64]bool, error) {
	blocks := map[uint64]bool{}
	s := newScanner(f, h.size, h.nonce)
	for at := int64(len(h.bytes)); ; {
		rec, ok, err := s.head(at)
		if err == nil && !ok {
			if at, ok, err = s.search(ctx, at+1); err == nil && ok {
				continue
			}
		}
		if err != nil || !ok {
			return blocks, err
		}
		if rec.kind == recordBlock && rec.number < uint64(max(0, h.Blocks)) {
			blocks[rec.number] = true
		}
		at = rec.dataAt() + rec.data
	}
}
