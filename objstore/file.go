package objstore

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leat/internal/publish"
)

// files is a folder. gocloud's driver for folders is not used: it escapes names and keeps files of its own beside them.
type files struct{ root string }

func openFiles(u *url.URL) (*files, error) {
	if u.Host != "" && u.Host != "localhost" {
		return nil, fmt.Errorf("objstore: %s names the host %q: a folder has three slashes, as in file:///data", Redact(u.String()), u.Host)
	}
	root, err := filepath.Abs(filepath.FromSlash(u.Path))
	return &files{root: root}, err
}

func (f *files) path(name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", fmt.Errorf("objstore: %q leads out of the folder %s", name, f.root)
	}
	return filepath.Join(f.root, filepath.FromSlash(name)), nil
}

func (f *files) ID(name string) string {
	return fileURL(filepath.ToSlash(filepath.Join(f.root, filepath.FromSlash("/"+name))))
}

func (f *files) fail(op, name string, err error) error {
	var pe *fs.PathError
	if e, ok := err.(*fs.PathError); ok {
		pe = e
		err = pe.Err
	}
	return &Error{Op: op, URL: f.ID(name), Err: err}
}

func infoOf(name string, fi fs.FileInfo) Info {
	return Info{Name: name, Size: fi.Size(), ModTime: fi.ModTime()}
}

func (f *files) Stat(ctx context.Context, name string) (Info, error) {
	p, err := f.path(name)
	if err != nil {
		return Info{}, err
	}
	fi, err := os.Stat(p)
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("it is no regular file but %s", kind(fi.Mode()))
	}
	if err != nil {
		return Info{}, f.fail("looking up", name, err)
	}
	return infoOf(name, fi), nil
}

func kind(m fs.FileMode) string {
	if m.IsDir() {
		return "a folder"
	}
	return "a device, pipe or socket"
}

func (f *files) Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error) {
	info, err := f.Stat(ctx, name) // before it is opened: a pipe would wait
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
	return info, &fileBody{SectionReader: io.NewSectionReader(file, offset, n), f: file, id: f.ID(name), left: n}, nil
}

// fileBody is a piece of an open file.
type fileBody struct {
	*io.SectionReader
	f    *os.File
	id   string
	left int64
}

// File is the open file, and where in it the piece lies.
func (b *fileBody) File() (f *os.File, offset, length int64) {
	_, offset, length = b.Outer()
	return b.f, offset, length
}

func (b *fileBody) Read(p []byte) (int, error) {
	n, err := b.SectionReader.Read(p)
	if b.left -= int64(n); err == io.EOF && b.left > 0 {
		err = &Error{Op: "reading", URL: b.id, Err: fmt.Errorf("%w: it was cut off", ErrChanged)}
	}
	return n, err
}

func (b *fileBody) Close() error { return b.f.Close() }

// WriteTo hides that of SectionReader, which would not see a file that was cut off.
func (b *fileBody) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{b}) }

func (f *files) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		// Only the folder in which names with the prefix can lie is looked at.
		dir, _ := filepath.Split(filepath.FromSlash(prefix))
		if dir != "" && !filepath.IsLocal(filepath.Clean(dir)) {
			yield(Info{}, fmt.Errorf("objstore: %q leads out of the folder %s", prefix, f.root))
			return
		}
		var all []Info
		err := filepath.WalkDir(filepath.Join(f.root, dir), func(p string, d fs.DirEntry, err error) error {
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

func (f *files) Upload(ctx context.Context, name string, r io.ReaderAt, size int64) error {
	p, err := f.path(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
		return f.fail("writing", name, err)
	}
	file, err := publish.Create(p, 0o666)
	if err != nil {
		return f.fail("writing", name, err)
	}
	defer file.Abort()
	n, err := io.Copy(file, &ctxReader{ctx, io.NewSectionReader(r, 0, size)})
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		return f.fail("writing", name, err)
	}
	return nil
}

// ctxReader ends with its context.
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
