package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leat/internal/units"
)

// entryInMemory is the size up to which an entry from a pipe is kept in memory until all of it has
// come.
const entryInMemory = 16 << 20

// entryInput is the data of an entry: a regular file, or what came from a pipe, in memory or in a
// file without a name.
type entryInput struct {
	ctx  context.Context
	name string // of the input, for errors
	from io.ReaderAt
	size int64
	file *os.File // to close; may be nil
}

// ReadAt reads until the command is interrupted.
func (in *entryInput) ReadAt(b []byte, at int64) (int, error) {
	if err := context.Cause(in.ctx); err != nil {
		return 0, err
	}
	return in.from.ReadAt(b, at)
}

func (in *entryInput) close() {
	if in.file != nil {
		_ = in.file.Close()
	}
}

// openEntry opens DATA, or standard input for "-". A cache needs the size of an entry before its
// data, so what comes from a pipe is read first: to memory while it is small, else to a file in
// dir. No more than most bytes of it are read, if most is not 0. An interruption ends the waiting
// for input that does not come.
func openEntry(cmd *cobra.Command, from, dir string, most int64) (*entryInput, error) {
	in := &entryInput{ctx: cmd.Context(), name: from}
	stream := cmd.InOrStdin()
	if from == "-" {
		in.name = "standard input"
		if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintln(cmd.ErrOrStderr(), "leat: reading the entry from the keyboard; ^D ends it, ^C gives up")
		}
	} else {
		f, err := interruptible(cmd.Context(), func() (*os.File, error) { return os.Open(from) })
		if cmd.Context().Err() != nil {
			return nil, context.Cause(cmd.Context())
		}
		if err != nil {
			return nil, fmt.Errorf("%s can't be read: %w", from, cause(err))
		}
		in.file, stream = f, f
	}
	if f, ok := stream.(*os.File); ok {
		// A shell may have read some of standard input. Small files may have another size than they
		// say, as in /proc.
		at, err := f.Seek(0, io.SeekCurrent)
		if st, err1 := f.Stat(); err == nil && err1 == nil && st.Mode().IsRegular() && st.Size()-at > entryInMemory {
			in.size = st.Size() - at
			in.from = io.NewSectionReader(f, at, in.size)
			return in, nil
		}
	}
	if most > 0 {
		stream = io.LimitReader(stream, most)
	}
	return interruptible(cmd.Context(), func() (*entryInput, error) { return in, in.spool(stream, dir) })
}

// spool reads a stream to its end.
func (in *entryInput) spool(stream io.Reader, dir string) error {
	failed := func(err error) error { return fmt.Errorf("%s can't be read: %w", in.name, cause(err)) }
	head, err := io.ReadAll(io.LimitReader(stream, entryInMemory))
	if err != nil {
		return failed(err)
	}
	in.size = int64(len(head))
	if in.size < entryInMemory {
		in.from = bytes.NewReader(head)
		return nil
	}
	f, err := os.CreateTemp(dir, ".leat-put-*")
	if err != nil {
		return fmt.Errorf("no file can be made in %s for an entry of more than %s: %w", dir, units.FormatSize(entryInMemory),
			cause(err))
	}
	err = os.Remove(f.Name()) // it goes with the process, however that ends
	if err == nil {
		_, err = f.Write(head)
	}
	b := make([]byte, 1<<20)
	for err == nil {
		n, read := stream.Read(b)
		_, err = f.Write(b[:n])
		in.size += int64(n)
		if errors.Is(read, io.EOF) {
			break
		}
		if read != nil {
			return errors.Join(failed(read), f.Close())
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing to %s, where %s is kept until all of it has come: %w", dir, in.name,
			cause(err)), f.Close())
	}
	in.close()
	in.file, in.from = f, f
	return nil
}
