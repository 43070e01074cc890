package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"leat/cache"
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

// entryDataDoc is an entry with its bytes, in --json.
type entryDataDoc struct {
	Slot  int64  `json:"slot"` // counted from 0
	Bytes int    `json:"bytes"`
	Data  []byte `json:"data"` // in base64
}

func getEntry(ctx context.Context, w io.Writer, path string, i int64, f *cacheFlags) (err error) {
	c, info, err := readCache(path, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := inCache(path, i, info.Slots); err != nil {
		return err
	}
	err = c.View(i, func(b []byte) error {
		if f.json {
			return stdoutError(writeJSON(w, entryDataDoc{i, len(b), b}))
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
