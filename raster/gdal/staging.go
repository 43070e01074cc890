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
)

// staging is the folder .NAME.leat-gdal beside an output, in which its files come to be under their own names: many formats have several, which
// name each other. It is locked while its Writer lives; what a dead one left is removed by the next.
type staging struct {
	final string // of the output
	dir   string
	lock  *os.File
}

func stagingFolder(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".leat-gdal")
}

// RemoveLeft removes what a Writer of path left that was killed, and returns what it was, "" where there is nothing. It is an error where a Writer is at work.
func RemoveLeft(path string) (folder string, bytes int64, err error) {
	st, err := os.Lstat(stagingFolder(path))
	if err != nil || !st.IsDir() {
		return "", 0, nil
	}
	bytes, err = sizeOf(stagingFolder(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	s, err := newStaging(path)
	if err != nil {
		return "", 0, err
	}
	return s.dir, bytes, s.remove()
}

// sizeOf counts the bytes of a file, or of all files in a folder.
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

// newStaging takes the folder for the output at path.
func newStaging(path string) (*staging, error) {
	s := &staging{final: path, dir: stagingFolder(path)}
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

// pixels is the file that is copied in the end.
func (s *staging) pixels() string { return filepath.Join(s.scratch(), "pixels.tif") }

// main is the output's name until it is published.
func (s *staging) main() string { return filepath.Join(s.outputs(), filepath.Base(s.final)) }

// remove gives the folder up.
func (s *staging) remove() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// stale are files beside an old output that GDAL would take for the new one's.
var stale = []string{".aux.xml", ".ovr", ".msk", ".ovr.aux.xml", ".msk.ovr"}

// maxText bounds the texts that rename looks at.
const maxText = 1 << 16

// rename puts the output's own name into texts beside it that name it where it still lies, such as ENVI's.
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

// files lists what lies there to be published, the output itself first.
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
		return nil, 0, fmt.Errorf("%s: GDAL wrote no file of that name, but %s; name the output as the format wants it, by the ending that is usual for it", s.final, strings.Join(names, ", "))
	}
	return names, bytes, nil
}

// belongings lists the files beside an old output that GDAL takes for parts of it, such as a colour table or coordinates, which it would take for the new one's. Only those of the output's own
// name, whatever their endings, count.
func (s *staging) belongings(driver string) (paths []string) {
	if st, err := os.Lstat(s.final); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	f, err := Open(s.final, &Options{Drivers: []string{driver}})
	if err != nil {
		return nil // it is no raster of that format
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
		if name == base || filepath.Dir(path) != filepath.Dir(s.final) || name != stem && !strings.HasPrefix(name, base+".") && strings.TrimSuffix(name, filepath.Ext(name)) != stem {
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// publish moves the files to their names, the output itself last, in place of what is there; unless noClobber says that there must be nothing. What belonged to the old
// output goes.
func (s *staging) publish(noClobber bool, belongings []string) error {
	names, _, err := s.files()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(s.final); err == nil && noClobber {
		return fmt.Errorf("%s: %w", s.final, fs.ErrExist)
	}
	base, folder := names[0], filepath.Dir(s.final)
	for _, suffix := range stale {
		belongings = append(belongings, filepath.Join(folder, base+suffix))
	}
	for _, path := range belongings {
		if slices.Contains(names, filepath.Base(path)) {
			continue // it is replaced
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for i, name := range append(names[1:], base) {
		from, to := filepath.Join(s.outputs(), name), filepath.Join(folder, name)
		st, err := os.Lstat(to)
		if err == nil && st.IsDir() {
			if noClobber && name == base {
				return fmt.Errorf("%s: %w", to, fs.ErrExist)
			}
			// A folder can't be replaced in one step, and not at all by a file.
			if err := os.Rename(to, filepath.Join(s.scratch(), fmt.Sprintf("old-%d", i))); err != nil {
				return err
			}
		}
		if noClobber && name == base {
			// A link replaces nothing. There are file systems without links, and none of folders.
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
