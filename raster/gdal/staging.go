package gdal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// staging is the folder .NAME.leat-gdal beside an output, in which its files come to be under their own names: many formats have several, which
// name each other. It is locked while its Writer lives; what a dead one left is removed by the next.
type staging struct {
	final string // of the output
	dir   string
	lock  *os.File
}

// newStaging takes the folder for the output at path.
func newStaging(path string) (*staging, error) {
	s := &staging{final: path, dir: filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".leat-gdal")}
	for {
		if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, s.explain(err)
		}
		f, err := os.OpenFile(s.dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its Writer ended just now
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s is in the way (%w); remove it", path, s.dir, err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: somebody else is writing it (%s is locked); wait, or write elsewhere", path, s.dir)
		}
		// The folder that is locked may have lost its name in between.
		mine, err1 := f.Stat()
		named, err2 := os.Lstat(s.dir)
		if err1 != nil || err2 != nil || !os.SameFile(mine, named) {
			f.Close()
			continue
		}
		s.lock = f
		break
	}
	old, err := os.ReadDir(s.dir)
	for _, e := range old {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
	}
	for _, d := range []string{s.outputs(), s.scratch()} {
		err = errors.Join(err, os.Mkdir(d, 0o700))
	}
	if err != nil {
		return nil, errors.Join(s.explain(err), s.remove())
	}
	return s, nil
}

func (s *staging) explain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: no folder can be made beside it to write in: %w", s.final, err)
}

func (s *staging) outputs() string { return filepath.Join(s.dir, "out") }
func (s *staging) scratch() string { return filepath.Join(s.dir, "scratch") }

// main is the output's name until it is published.
func (s *staging) main() string { return filepath.Join(s.outputs(), filepath.Base(s.final)) }

// remove gives the folder up.
func (s *staging) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// stale are files beside an old output that GDAL would take for the new one's.
var stale = []string{".aux.xml", ".ovr", ".msk", ".ovr.aux.xml", ".msk.ovr"}

// publish moves the files to their names, the output itself last, in place of what is there.
func (s *staging) publish() error {
	entries, err := os.ReadDir(s.outputs())
	if err != nil {
		return err
	}
	base, folder := filepath.Base(s.final), filepath.Dir(s.final)
	var names []string
	found := false
	for _, e := range entries {
		if e.Name() == base {
			found = true
		} else {
			names = append(names, e.Name())
		}
	}
	if !found {
		return fmt.Errorf("%s: GDAL wrote no file of that name, but %s; name the output as the format wants it", s.final, strings.Join(names, ", "))
	}
	for _, suffix := range stale {
		if name := base + suffix; !slices.Contains(names, name) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	for i, name := range append(names, base) {
		to := filepath.Join(folder, name)
		if st, err := os.Lstat(to); err == nil && st.IsDir() {
			// A folder can't be replaced in one step, and not at all by a file.
			if err := os.Rename(to, filepath.Join(s.scratch(), fmt.Sprintf("old-%d", i))); err != nil {
				return err
			}
		}
		if err := os.Rename(filepath.Join(s.outputs(), name), to); err != nil {
			return err
		}
	}
	return nil
}
