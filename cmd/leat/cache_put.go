package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/units"
)

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

// putDoc is what became of an entry that was put, in --json.
type putDoc struct {
	Slot   int64  `json:"slot"`            // counted from 0
	Stored bool   `json:"stored"`          // false: see why
	Bytes  *int64 `json:"bytes,omitempty"` // not known where it was refused before it was read
	Why    string `json:"why,omitempty"`   // filled, frozen, full and so on
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
		answer := putDoc{Slot: i, Stored: why == "", Why: why}
		if size >= 0 && (info.MaxBytes == 0 || size < info.MaxBytes) {
			answer.Bytes = &size
		}
		if err := writeJSON(cmd.OutOrStdout(), answer); err != nil {
			return errors.Join(refused, stdoutError(err))
		}
	}
	return refused
}

// offer stores an entry, or returns why it is not stored. It does not freeze a full cache.
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
