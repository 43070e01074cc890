package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

func cacheCreateCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("create FILE N", "Make an empty cache of N slots",
		`Create makes a named cache of N slots, numbered from 0, complete in one step. It costs the same for any N: space is
taken when slots are filled. Programs join it by cache.Open with the same N, or make it themselves.`,
		`  leat cache create samples.cache 50000
  leat cache create /scratch/samples.cache 1000000 --max-bytes 200G`,
		func(cmd *cobra.Command, args []string) error {
			n, o, err := f.creation(args[1])
			if err != nil {
				return err
			}
			return createCache(cmd, args[0], n, o, f)
		})
	c.Flags().StringVar(&f.maxBytes, "max-bytes", "",
		"`SIZE`: most bytes of the file, such as 10G; the first entry of a program that does not fit freezes the cache (default: no limit)")
	c.Flags().StringVar(&f.durability, "durability", "none",
		"`WHEN`: entries are brought to the disk by the kernel in its time (none, default), every 64 MiB or 1024 entries (batch), or each at once (each)")
	f.addJSON(c, "one JSON object, as of stat --json")
	f.addRemote(c)
	return c
}

// durabilities are what --durability takes.
var durabilities = []string{"none", "batch", "each"}

// creation checks N and the options.
func (f *cacheFlags) creation(count string) (int64, *cache.Options, error) {
	n, err := slotCount(count)
	o := &cache.Options{AllowRemote: f.remote}
	if f.maxBytes != "" {
		var err1 error
		if o.MaxBytes, err1 = units.ParseSize(f.maxBytes); err1 != nil {
			err = errors.Join(err, usagef("--max-bytes %s: %w", f.maxBytes, err1))
		} else if err == nil && o.MaxBytes < cache.FileSize(n) {
			err = usagef("--max-bytes %s: the first page and the index of %d slots alone take %d bytes: give more",
				f.maxBytes, n, cache.FileSize(n))
		}
	}
	switch f.durability {
	case "none":
	case "batch":
		o.Durability = cache.DurabilityBatch
	case "each":
		o.Durability = cache.DurabilityEach
	default:
		err = errors.Join(err, usagef("--durability %s: %w", f.durability, unknownWord(f.durability, durabilities)))
	}
	return n, o, err
}

func createCache(cmd *cobra.Command, path string, n int64, o *cache.Options, f *cacheFlags) error {
	switch info, err := cache.Inspect(path); {
	case err == nil:
		return fmt.Errorf("%s exists: it is a cache of %s; use it, remove it, or give another name", path,
			units.Count(info.Slots, "slot"))
	case !errors.Is(err, fs.ErrNotExist):
		if _, err1 := os.Lstat(path); err1 == nil {
			return fmt.Errorf("%s exists and is something else: give another name", path)
		}
	}
	c, err := cache.Open(path, n, o)
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	if !f.json {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", terminal.Name(path), units.Count(n, "empty slot"))
		return nil
	}
	d, err := statCache(path, f)
	if err != nil {
		return err
	}
	return stdoutError(writeJSON(cmd.OutOrStdout(), d))
}
