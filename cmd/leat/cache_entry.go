package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leat/cache"
	"leat/internal/units"
)

func cacheGetCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("get FILE INDEX", "Write an entry to standard output",
		`Get writes the bytes of the entry in slot INDEX, and nothing else, to standard output. They are verified first.
An empty slot is an error.`,
		`  leat cache get samples.cache 17 >17.npy
  leat cache get --json samples.cache 17 | jq -r .data | base64 -d`,
		func(cmd *cobra.Command, args []string) error {
			i, err := slotNumber(args[1])
			if err != nil {
				return err
			}
			return getEntry(cmd.Context(), cmd.OutOrStdout(), args[0], i, f)
		})
	f.addJSON(c, "one JSON object: slot, bytes, data (in base64)")
	f.addRemote(c)
	return c
}

func getEntry(ctx context.Context, w io.Writer, path string, i int64, f *cacheFlags) (err error) {
	c, info, err := openCache(path, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := inCache(path, i, info.Slots); err != nil {
		return err
	}
	err = c.View(i, func(b []byte) error {
		if f.json {
			return stdoutError(writeJSON(w, struct {
				Slot  int64  `json:"slot"`
				Bytes int    `json:"bytes"`
				Data  []byte `json:"data"`
			}{i, len(b), b}))
		}
		_, err := w.Write(b)
		return stdoutError(err)
	})
	if !errors.Is(err, cache.ErrMiss) {
		return err
	}
	found := errors.New("found")
	switch err := c.Each(ctx, func(e cache.Entry) error {
		if e.Slot == i {
			return found
		}
		return nil
	}); {
	case errors.Is(err, found) && (info.Preserved || info.Frozen):
		return fmt.Errorf("%s: the entry in slot %d is damaged, and the cache takes no other: leat cache check lists what else is", path, i)
	case errors.Is(err, found):
		return fmt.Errorf("%s: the entry in slot %d is damaged: put it again", path, i)
	case err != nil:
		return err
	}
	return fmt.Errorf("%s: slot %d is empty", path, i)
}

func cachePutCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("put FILE INDEX [DATA]", "Store a file or standard input as an entry",
		`Put stores the bytes of the file DATA, or of standard input, in slot INDEX, for all processes at once. A slot that is
filled stays as it is: that is an error here, as are a frozen cache, a reached limit and a full disk. An entry that
is damaged is replaced.`,
		`  leat cache put samples.cache 17 17.npy
  curl -sf https://example.org/17.npy | leat cache put samples.cache 17`,
		func(cmd *cobra.Command, args []string) error {
			i, err := slotNumber(args[1])
			if err != nil {
				return err
			}
			from := "-"
			if len(args) == 3 {
				from = args[2]
			}
			return putEntry(cmd, args[0], i, from, f)
		})
	f.addJSON(c, "one JSON object: slot, bytes, stored, and why where that is false: filled, frozen, full or no space")
	f.addRemote(c)
	return c
}

func putEntry(cmd *cobra.Command, path string, i int64, from string, f *cacheFlags) (err error) {
	c, info, err := openCache(path, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := inCache(path, i, info.Slots); err != nil {
		return err
	}
	// What can't be stored need not be read, and never all of an endless input.
	size := int64(-1)
	why, refused, err := refusal(c, path, i, -1)
	if err == nil && why == "" {
		var in *entryInput
		in, err = openEntry(cmd, from, filepath.Dir(path), info.MaxBytes)
		switch {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			why, refused, err = noSpaceFor(path, "it")
		case err == nil:
			defer in.close()
			size = in.size
			if why, refused, err = refusal(c, path, i, size); err == nil && why == "" {
				why, refused, err = offer(c, path, i, in)
			}
		}
	}
	if err != nil {
		return err
	}
	if f.json {
		answer := map[string]any{"slot": i, "stored": why == ""}
		if size >= 0 && (info.MaxBytes == 0 || size < info.MaxBytes) {
			answer["bytes"] = size
		}
		if why != "" {
			answer["why"] = why
		}
		if err := writeJSON(cmd.OutOrStdout(), answer); err != nil {
			return errors.Join(refused, stdoutError(err))
		}
	}
	return refused
}

// offer stores an entry, or returns why it is not stored. It freezes the cache for nobody.
func offer(c *cache.Cache, path string, i int64, in *entryInput) (why string, refused, err error) {
	o, err := c.TryPutFrom(i, in, in.size)
	switch {
	case err != nil && in.ctx.Err() != nil:
		return "", nil, context.Cause(in.ctx)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "", nil, fmt.Errorf("%s became shorter while it was read: put it again", in.name)
	case err != nil || o == cache.Stored:
		return "", nil, err
	case o == cache.NoSpace:
		return noSpaceFor(path, units.FormatSize(in.size))
	}
	// space of others' puts that failed, and went back
	if why, refused, err = refusal(c, path, i, in.size); why == "" && err == nil {
		why, refused = "full", fmt.Errorf("%s: other processes were putting up to its limit: try again", path)
	}
	return why, refused, err
}

func noSpaceFor(path, what string) (why string, refused, err error) {
	return "no space", hintedError{fmt.Errorf("%s: no space for %s on its disk, or below the size of files that this process may write",
		path, what), "free some of the disk, or raise the limit (ulimit -f)"}, nil
}

// refusal returns why an entry of so many bytes, -1 for any, would not be stored; the empty word
// says that nothing stands in its way.
func refusal(c *cache.Cache, path string, i, size int64) (why string, refused, err error) {
	has, err := c.Has(i)
	if err != nil {
		return "", nil, err
	}
	s, err := c.Stats()
	switch need := s.Bytes + cache.FileSize(1, max(size, 0)) - cache.FileSize(1); {
	case err != nil:
		return "", nil, err
	case has:
		return "filled", fmt.Errorf("%s: slot %d is filled, and entries are never replaced: take another slot, or make another cache", path, i), nil
	case s.Preserved:
		return "frozen", fmt.Errorf("%s is preserved: it takes no more entries", path), nil
	case s.Frozen && s.RefusedFull > 0:
		return "full", fmt.Errorf("%s reached its limit of %s: it takes no more entries; make another one with a larger --max-bytes", path, units.FormatSize(s.MaxBytes)), nil
	case s.Frozen:
		return "frozen", fmt.Errorf("%s is frozen: it takes no more entries; make another one", path), nil
	case s.MaxBytes > 0 && need > s.MaxBytes && size < 0:
		return "full", fmt.Errorf("%s is full: it has %s left below its limit, and any entry takes %d of its own; make a cache with a larger --max-bytes",
			path, units.FormatSize(max(s.MaxBytes-s.Bytes, 0)), need-s.Bytes), nil
	case s.MaxBytes > 0 && need > s.MaxBytes:
		takes := "more"
		if size < s.MaxBytes { // else it was not read to its end
			takes = units.FormatSize(size)
		}
		return "full", fmt.Errorf("%s: the entry does not fit below the limit of the cache: it has %d bytes left, %d of them for what every entry takes, and the entry has %s; put a smaller one, or make a cache with a larger --max-bytes",
			path, s.MaxBytes-s.Bytes, need-s.Bytes-size, takes), nil
	}
	return "", nil, nil
}

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
