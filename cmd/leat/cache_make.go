package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
		err = errors.Join(err, usagef("--durability %s: use none, batch or each", f.durability))
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

func cachePreserveCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("preserve FILE [NEW]", "Make a cache final, for readers everywhere",
		`Preserve makes a cache final: it freezes it for all processes, waits for puts that are under way, verifies every entry
(damaged ones become empty), brings all to the disk and seals it. From then on anybody who may read the file can,
by cache.Load. NEW is another name for the same file, or a copy on another file system; without it, FILE just
becomes final. Programs may go on reading meanwhile. There is no way back.`,
		`  leat cache preserve samples.cache
  leat cache preserve samples.cache /data/samples-v1.cache`,
		func(cmd *cobra.Command, args []string) error {
			to := args[0]
			if len(args) == 2 {
				to = args[1]
			}
			return preserveCache(cmd, args[0], to, f)
		})
	f.addOverwrite(c, "NEW")
	f.addJSON(c, "one JSON object: path, entries, bytes, and dropped: damaged entries that became empty")
	f.addRemote(c)
	return c
}

func preserveCache(cmd *cobra.Command, path, to string, f *cacheFlags) error {
	overwrite := f.overwrite || to == path
	info, err := inspectCache(path)
	if err != nil {
		return err
	}
	if st, err := os.Lstat(path); to == path && err == nil && st.Mode()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is a symbolic link, which the preserved cache would replace: give %s, the file that it leads to", path, target)
	}
	if err := free(to, overwrite); err != nil {
		return err
	}
	ctx, people := cmd.Context(), cmd.ErrOrStderr()
	var dropped int64
	err = watch(ctx, people, "reading "+units.FormatSize(info.DiskBytes), f.of(info, 0), func() (err error) {
		c, _, err := openCache(path, f)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		dropped, err = c.Preserve(ctx, to, overwrite)
		return err
	})
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		if now, err := cache.Inspect(path); err == nil && now.Frozen && !info.Frozen {
			return fmt.Errorf("interrupted: %s is frozen now, but not preserved: run this again to make it whole", path)
		}
		return err
	}
	if err != nil {
		return err
	}
	done, err := cache.Inspect(to)
	if err != nil {
		return err
	}
	if dropped > 0 {
		fmt.Fprintf(people, "leat: %s: %s became empty\n", terminal.Name(to),
			units.Plural(dropped, "damaged entry", "damaged entries"))
	}
	if f.json {
		return stdoutError(writeJSON(cmd.OutOrStdout(), struct {
			Path    string `json:"path"`
			Entries int64  `json:"entries"`
			Bytes   int64  `json:"bytes"`
			Dropped int64  `json:"dropped"`
		}{to, done.Entries, done.Bytes, dropped}))
	}
	fmt.Fprintf(people, "%s: %s, %s, final\n", terminal.Name(to), entriesText(done.Entries), units.FormatSize(done.Bytes))
	return nil
}

// free checks that a file may be made with that name, before work begins that would be in vain.
func free(path string, overwrite bool) error {
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil // whoever makes it says what is wrong with it
	case st.IsDir():
		return fmt.Errorf("%s is a directory: give the name of a file in it", path)
	case !overwrite:
		return fmt.Errorf("%s exists: give another name, or --overwrite", path)
	}
	return nil
}
