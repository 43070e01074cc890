package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"leat/internal/tempfile"
)

// files is a Source that reads and writes below a directory. gocloud's driver for directories
// escapes names and adds files of its own, so leat does not use it.
type files struct{ root string }

func openFiles(directory string) (*files, error) {
	if directory == "" {
		return nil, errors.New("the path of the directory is empty")
	}
	root, err := filepath.Abs(filepath.FromSlash(directory))
	return &files{root: root}, err
}

func (f *files) path(name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("the name of a file in %s is empty", f.root)
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("%q is outside the directory %s", name, f.root)
	}
	return filepath.Join(f.root, filepath.FromSlash(name)), nil
}

func (f *files) ID(name string) string {
	return fileURL(filepath.ToSlash(filepath.Join(f.root, filepath.FromSlash("/"+name))))
}

func (f *files) fail(op, name string, err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		err = pe.Err
	}
	return &Error{Op: op, URL: f.ID(name), Err: err}
}

// infoOf identifies a file's version by inode and change time (ctime): size and modification time
// can be copied to another file (rsync -t, cp -p).
func infoOf(name string, fi fs.FileInfo) Info {
	i := Info{Name: name, Size: fi.Size(), ModTime: fi.ModTime()}
	var changed time.Time
	i.ETag, changed = fileTag(fi)
	i.AmbiguousVersion = recent(changed, time.Now())
	return i
}

func (f *files) Stat(ctx context.Context, name string) (Info, error) {
	p, err := f.path(name)
	if err != nil {
		return Info{}, err
	}
	fi, err := os.Stat(p)
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("it is %s, expected a regular file", kind(fi.Mode()))
	}
	if err != nil {
		return Info{}, f.fail("looking up", name, err)
	}
	return infoOf(name, fi), nil
}

func kind(m fs.FileMode) string {
	if m.IsDir() {
		return "a directory"
	}
	return "a device, pipe or socket"
}

func (f *files) Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error) {
	if offset < 0 {
		return Info{}, nil, fmt.Errorf("reading %s: the offset is %d, expected 0 or more", f.ID(name), offset)
	}
	info, err := f.Stat(ctx, name) // before the open, which would block on a pipe
	if err != nil {
		return info, nil, err
	}
	p, _ := f.path(name)
	file, err := os.Open(p)
	if err != nil {
		return info, nil, f.fail("reading", name, err)
	}
	fi, err := file.Stat()
	if err == nil {
		info = infoOf(name, fi)
		if changed(match, info) {
			err = ErrChanged
		}
	}
	if err != nil {
		file.Close()
		return info, nil, f.fail("reading", name, err)
	}
	n := max(0, info.Size-offset)
	if length >= 0 {
		n = min(n, length)
	}
	return info, &fileBody{f: file, at: offset, left: n, files: f, info: info}, nil
}

// fileBody reads a range of an open file.
type fileBody struct {
	f        *os.File
	at, left int64
	files    *files
	info     Info
}

func (b *fileBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		// If the file was written to during the read, old and new bytes may be mixed.
		fi, err := b.f.Stat()
		switch {
		case err != nil:
			return 0, b.files.fail("reading", b.info.Name, err)
		case !SameVersion(b.info, infoOf(b.info.Name, fi)):
			return 0, b.files.fail("reading", b.info.Name, ErrChanged)
		}
		return 0, io.EOF
	}
	n, err := b.f.ReadAt(p[:min(int64(len(p)), b.left)], b.at)
	b.at += int64(n)
	b.left -= int64(n)
	if err == io.EOF {
		if err = nil; b.left > 0 {
			err = ErrChanged // truncated
		}
	}
	if err != nil {
		return n, b.files.fail("reading", b.info.Name, err)
	}
	return n, nil
}

func (b *fileBody) Close() error { return b.f.Close() }

func (f *files) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		// Walk only the directory that can contain names with the prefix.
		dir, _ := filepath.Split(filepath.FromSlash(prefix))
		if dir != "" && !filepath.IsLocal(filepath.Clean(dir)) {
			yield(Info{}, fmt.Errorf("%q is outside the directory %s", prefix, f.root))
			return
		}
		var all []Info
		err := filepath.WalkDir(filepath.Join(f.root, dir), func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && p != f.root {
				return nil // removed meanwhile, or no name has the prefix
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(f.root, p)
			if err != nil || d.IsDir() {
				return err
			}
			name := filepath.ToSlash(rel)
			if !strings.HasPrefix(name, prefix) {
				return nil
			}
			fi, err := os.Stat(p)
			if err == nil && fi.Mode().IsRegular() {
				all = append(all, infoOf(name, fi))
			}
			return ctx.Err()
		})
		if err != nil {
			yield(Info{}, f.fail("listing", prefix, err))
			return
		}
		slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
		for _, i := range all {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func (f *files) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o UploadOptions) error {
	p, err := f.path(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
		return f.fail("writing", name, err)
	}
	file, err := tempfile.Create(p, 0o666)
	if err != nil {
		return f.fail("writing", name, err)
	}
	defer file.Abort()
	n, err := io.Copy(file, &ctxReader{ctx, io.NewSectionReader(r, 0, size)})
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
	case o.IfAbsent:
		if err = file.CommitNew(); errors.Is(err, fs.ErrExist) {
			err = fs.ErrExist
		}
	default:
		err = file.Commit()
	}
	if err != nil {
		return f.fail("writing", name, err)
	}
	return nil
}

// ctxReader fails once its context is done.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
