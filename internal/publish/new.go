package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CommitNew is Commit that replaces nothing: where something has the name the error is fs.ErrExist,
// and the file waits for CommitBeside, or for Abort.
func (f *File) CommitNew() error { return f.commitNew(f.final) }

// commitNew publishes the file as path, in the folder of its own name.
func (f *File) commitNew(path string) error {
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
	err := os.Link(hidden, path)
	switch {
	case err == nil:
		err = os.Remove(hidden)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	default: // there are file systems without links: the name is taken by an empty file first, which is replaced
		err = renameNew(hidden, path)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
	}
	if err != nil {
		return errors.Join(f.explain("name", err), f.Abort())
	}
	f.done = true
	if err := f.File.Close(); err != nil {
		return f.explain("write", err)
	}
	return nil
}

func renameNew(from, to string) error {
	taken, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	taken.Close()
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// CommitBeside publishes the file under its name or, where something has that, or taken says so of
// it, under the first free one of NAME-2.EXT, NAME-3.EXT and so on. Nothing is replaced. It returns
// the name.
func (f *File) CommitBeside(taken func(path string) bool) (string, error) {
	ext := filepath.Ext(f.final)
	for n := 1; ; n++ {
		path := f.final
		if n > 1 {
			path = numbered(path, ext, n)
		}
		if taken(path) {
			continue
		}
		if err := f.commitNew(path); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
}

// numbered puts a number between the name and its extension, in place of the name's end where it
// would be too long.
func numbered(path, ext string, n int) string {
	dir, name := filepath.Split(path)
	name = name[:len(name)-len(ext)]
	end := fmt.Sprintf("-%d%s", n, ext)
	if most := maxName - len(end); most > 0 && len(name) > most {
		name = cutName(name, most)
	}
	return dir + name + end
}
