package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"leat/internal/tempfile"
	"leat/internal/terminal"
)

// outputError is an error of what is written to, not of an object.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// pathFor returns a path as it is printed to w: quoted where it has control characters and w is a
// terminal, else as it is, for scripts that use it.
func pathFor(w io.Writer, path string) string {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return terminal.Name(path)
	}
	return path
}

// stdoutWriter marks errors of standard output, so that they differ from those of what is read.
type stdoutWriter struct{ w io.Writer }

func (s stdoutWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		err = outputError{stdoutError(err)}
	}
	return n, err
}

// writeObject writes an object as a file that appears when it is whole.
// size is -1 where it is not known.
func writeObject(ctx context.Context, name string, r io.Reader, size int64, overwrite bool) error {
	if err := free(name, overwrite); err != nil { // it may be there by now
		return err
	}
	out, err := tempfile.Create(name, 0o666)
	if err != nil {
		return err
	}
	defer out.Abort()
	n, err := copyObject(ctx, out, r)
	if err == nil && size >= 0 && n != size {
		err = fmt.Errorf("%d of %d bytes came", n, size)
	}
	if err != nil {
		return fmt.Errorf("%s is not written: %w", name, err)
	}
	if overwrite {
		return out.Commit()
	}
	err = out.CommitNew()
	if errors.Is(err, fs.ErrExist) { // somebody has made it meanwhile
		return fmt.Errorf("%s exists: give another name, or --overwrite", name)
	}
	return err
}

// copyObject copies in pieces, so that it can be interrupted between them.
func copyObject(ctx context.Context, w io.Writer, r io.Reader) (n int64, err error) {
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(buf)
		if k > 0 {
			k, werr := w.Write(buf[:k])
			if n += int64(k); werr != nil {
				return n, werr
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
