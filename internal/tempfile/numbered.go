package tempfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CommitNew is Commit that replaces nothing: where the name is taken the error is fs.ErrExist, and
// the file can still be committed or aborted.
func (f *File) CommitNew() error { return f.commitNew(f.final) }

// commitNew publishes the file as path, in the directory of its own name.
func (f *File) commitNew(path string) error {
	if f.done {
		return f.closedError()
	}
	if err := f.hide(); err != nil {
		return err
	}
	hidden := hiddenName(f.final)
	err := os.Link(hidden, path)
	switch {
	case err == nil:
		err = os.Remove(hidden)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	default: // the file system has no links
		err = renameNew(hidden, path)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
	}
	if err != nil {
		return errors.Join(f.explain("naming", err), f.Abort())
	}
	return f.finish()
}

// renameNew renames a file to a name that is free: it takes the name with an empty file first.
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

// CommitNumbered publishes the file under the first free name of NAME.EXT, NAME-2.EXT, NAME-3.EXT
// and so on, and returns it. A name is also taken if taken reports so.
func (f *File) CommitNumbered(taken func(path string) bool) (string, error) {
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

// numbered inserts a number between a name and its extension, and cuts a name that is too long.
func numbered(path, ext string, n int) string {
	dir, name := filepath.Split(path)
	name = name[:len(name)-len(ext)]
	end := fmt.Sprintf("-%d%s", n, ext)
	if most := maxName - len(end); most > 0 && len(name) > most {
		name = cutName(name, most)
	}
	return dir + name + end
}
