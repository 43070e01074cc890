package gdal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"leat/internal/lockfile"
	"leat/internal/tempfile"
)

// staging is the directory .NAME.leat-gdal next to an output. The Writer writes files there under
// their own names, since formats with several files store the names of the others. The Writer locks
// the directory; the next Writer removes what a dead one left.
type staging struct {
	final string // the output's path
	dir   string
	lock  *os.File
}

func stagingDir(path string) string {
	return tempfile.HiddenName(path, stagingSuffix)
}

const stagingSuffix = ".leat-gdal"

// FindStaging returns the paths of outputs in dir whose Writer was killed or is running: see
// RemoveStaging. A very long name ends with a checksum instead, with which RemoveStaging finds the
// same directory.
func FindStaging(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), stagingSuffix); ok && e.IsDir() && len(name) > 1 && name[0] == '.' {
			list = append(list, filepath.Join(dir, name[1:]))
		}
	}
	return list, nil
}

// RemoveStaging removes the directory that a killed Writer of path left, and returns its path and
// size; "" if there is none. It returns an error if a Writer is running.
func RemoveStaging(path string) (directory string, bytes int64, err error) {
	st, err := os.Lstat(stagingDir(path))
	if err != nil || !st.IsDir() {
		return "", 0, nil
	}
	bytes, err = sizeOf(stagingDir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	s, err := newStaging(path)
	if err != nil {
		return "", 0, err
	}
	return s.dir, bytes, s.remove()
}

// sizeOf returns the size of a file, or of all files in a directory.
func sizeOf(path string) (n int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			n += st.Size()
		}
		return err
	})
	return n, err
}

// newStaging creates and locks the directory for the output at path.
func newStaging(path string) (*staging, error) {
	s := &staging{final: path, dir: stagingDir(path)}
	for {
		if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, s.explain(err)
		}
		f, err := lockfile.OpenFile(s.dir, os.O_RDONLY|syscall.O_DIRECTORY)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // its Writer has just ended
		case errors.Is(err, lockfile.ErrLocked):
			return nil, fmt.Errorf("%s: another process is writing it (%s is locked)", path,
				s.dir)
		case err != nil:
			return nil, fmt.Errorf("%s: %s can't be locked: %w", path, s.dir, err)
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
	return fmt.Errorf("%s: creating a temporary directory next to it: %w", s.final, err)
}

func (s *staging) outputs() string { return filepath.Join(s.dir, "out") }
func (s *staging) scratch() string { return filepath.Join(s.dir, "scratch") }

// pixels returns the path of the file that seal copies.
func (s *staging) pixels() string { return filepath.Join(s.scratch(), "pixels.tif") }

// main returns the output's path until it is published.
func (s *staging) main() string { return filepath.Join(s.outputs(), filepath.Base(s.final)) }

// remove removes the directory.
func (s *staging) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// stale lists sidecars of an old output that GDAL would use for the new one.
var stale = []string{".aux.xml", ".ovr", ".msk", ".ovr.aux.xml", ".msk.ovr"}

// maxText bounds the size of the text files that rename edits.
const maxText = 1 << 16

// rename replaces the temporary path by the output's own name in sidecars that contain it, such as
// ENVI's.
func (s *staging) rename() error {
	entries, err := os.ReadDir(s.outputs())
	if err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return err
		}
		if e.Name() == filepath.Base(s.final) || !st.Mode().IsRegular() || st.Size() > maxText {
			continue
		}
		path := filepath.Join(s.outputs(), e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte(s.main())) || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(s.main()), []byte(s.final)), 0); err != nil {
			return err
		}
	}
	return nil
}

// files lists the files to publish, the output itself first.
func (s *staging) files() (names []string, bytes int64, err error) {
	entries, err := os.ReadDir(s.outputs())
	if err != nil {
		return nil, 0, err
	}
	base := filepath.Base(s.final)
	for _, e := range entries {
		n, err := sizeOf(filepath.Join(s.outputs(), e.Name()))
		if err != nil {
			return nil, 0, err
		}
		bytes += n
		if e.Name() == base {
			names = slices.Insert(names, 0, base)
		} else {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 || names[0] != base {
		return nil, 0, fmt.Errorf("%s: GDAL wrote %s instead of a file of that name; use the extension that is usual for the format", s.final, strings.Join(names, ", "))
	}
	return names, bytes, nil
}

// oldParts lists the files next to an old output that GDAL treats as parts of it, such as a
// colour table or coordinates, and would use for the new one. They have the output's name with any
// extension.
func (s *staging) oldParts(driver string) (paths []string) {
	if st, err := os.Lstat(s.final); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	f, err := Open(s.final, &Options{Drivers: []string{driver}})
	if err != nil {
		return nil // not a raster of that format
	}
	defer f.Close()
	list, err := f.FileNames()
	if err != nil {
		return nil
	}
	base := filepath.Base(s.final)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	for _, path := range list {
		name := filepath.Base(path)
		if name == base || filepath.Dir(path) != filepath.Dir(s.final) || name != stem && !strings.HasPrefix(name,
			base+".") && strings.TrimSuffix(name, filepath.Ext(name)) != stem {
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// publish moves the files to their names, the output itself last, and replaces existing ones unless
// noClobber is set. It removes the old output's parts.
func (s *staging) publish(noClobber bool, belongings []string) error {
	names, _, err := s.files()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(s.final); err == nil && noClobber {
		return fmt.Errorf("%s: %w", s.final, fs.ErrExist)
	}
	base, directory := names[0], filepath.Dir(s.final)
	for _, suffix := range stale {
		belongings = append(belongings, filepath.Join(directory, base+suffix))
	}
	for _, path := range belongings {
		if slices.Contains(names, filepath.Base(path)) {
			continue // will be replaced
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err,
			syscall.ENAMETOOLONG) {
			return err
		}
	}
	for i, name := range append(names[1:], base) {
		from, to := filepath.Join(s.outputs(), name), filepath.Join(directory, name)
		st, err := os.Lstat(to)
		if err == nil && st.IsDir() {
			if noClobber && name == base {
				return fmt.Errorf("%s: %w", to, fs.ErrExist)
			}
			// A directory can't be replaced in one step, and never by a file.
			if err := os.Rename(to, filepath.Join(s.scratch(), fmt.Sprintf("old-%d", i))); err != nil {
				return err
			}
		}
		if noClobber && name == base {
			// A link replaces nothing. Some file systems have no links, and none links directories.
			if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return nil
}
