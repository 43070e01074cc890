package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

func cacheImportCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("import PFIOFILE N NEW", "Make a preserved cache of a file that pfio preserved",
		`Import reads a file that preserve() of pfio's MultiprocessFileCache made, and makes NEW, a preserved cache with the same
entries. The file does not tell how many slots it has: N must be the length that the cache was made with. Every
offset is checked first, which shows a wrong N as far as it can be known. NEW appears when it is whole.`,
		`  leat cache import samples.pfio 50000 samples.cache`,
		func(cmd *cobra.Command, args []string) error {
			n, err := slotCount(args[1])
			if err != nil {
				return err
			}
			return importCache(cmd, args[0], n, args[2], f)
		})
	f.addOverwrite(c, "NEW")
	f.addJSON(c, "one JSON object: path, slots, entries, bytes")
	f.addRemote(c)
	return c
}

func importCache(cmd *cobra.Command, from string, n int64, to string, f *cacheFlags) error {
	if err := free(to, f.overwrite); err != nil {
		return err
	}
	st, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("%s can't be read: %w", from, cause(err))
	}
	dir := filepath.Dir(to)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) { // cache.Create would make one of a mistyped name
		return fmt.Errorf("the directory %s does not exist: create it first", dir)
	}
	if at, err := os.Lstat(to); err == nil && os.SameFile(at, st) {
		return fmt.Errorf("%s is the file that is to be imported: give another name", to)
	}
	ctx, people := cmd.Context(), cmd.ErrOrStderr()
	var filling atomic.Pointer[cache.Cache]
	imported := func() (done, total int64) {
		c := filling.Load()
		if c == nil {
			return 0, 0
		}
		s, err := c.Stats()
		if err != nil { // closed already
			return 0, 0
		}
		return s.Bytes - cache.FileSize(n), max(st.Size()-16*n, 0)
	}
	err = watch(ctx, people, "importing "+units.FormatSize(st.Size()), imported, func() (err error) {
		// Nameless until it is whole, and in the directory of its name, where it needs no copy.
		c, err := cache.Create(n, &cache.Options{Dir: dir, AllowRemote: f.remote})
		if errors.Is(err, cache.ErrRemote) {
			c, err = cache.Create(n, nil)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		filling.Store(c)
		if _, err := c.ImportPFIO(ctx, from, n); err != nil {
			return err
		}
		_, err = c.Preserve(ctx, to, f.overwrite)
		return err
	})
	if err != nil {
		return err
	}
	done, err := cache.Inspect(to)
	if err != nil {
		return err
	}
	if f.json {
		return stdoutError(writeJSON(cmd.OutOrStdout(), writtenDoc{to, n, done.Entries, done.Bytes, nil}))
	}
	fmt.Fprintf(people, "%s: %s in %s, %s, final\n", terminal.Name(to), entriesText(done.Entries),
		units.Count(n, "slot"), units.FormatSize(done.Bytes))
	return nil
}
