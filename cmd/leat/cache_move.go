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
		return stdoutError(writeJSON(cmd.OutOrStdout(), struct {
			Path    string `json:"path"`
			Slots   int64  `json:"slots"`
			Entries int64  `json:"entries"`
			Bytes   int64  `json:"bytes"`
		}{to, n, done.Entries, done.Bytes}))
	}
	fmt.Fprintf(people, "%s: %s in %s, %s, final\n", terminal.Name(to), entriesText(done.Entries),
		units.Count(n, "slot"), units.FormatSize(done.Bytes))
	return nil
}

func cacheExportCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("export FILE PFIOFILE", "Write a cache as a file that pfio preloads",
		`Export writes the entries of a cache in the format that preload() of pfio's MultiprocessFileCache reads, given a cache
of as many slots; damaged entries become empty slots. PFIOFILE appears when it is whole. Its index has 16 bytes for
every slot, filled or not. What programs put meanwhile may be in it or not.`,
		`  leat cache export samples.cache samples.pfio`,
		func(cmd *cobra.Command, args []string) error { return exportCache(cmd, args[0], args[1], f) })
	f.addOverwrite(c, "PFIOFILE")
	f.addJSON(c, "one JSON object: path, slots, entries, bytes")
	f.addRemote(c)
	return c
}

func exportCache(cmd *cobra.Command, from, to string, f *cacheFlags) error {
	if err := free(to, f.overwrite); err != nil {
		return err
	}
	info, err := inspectCache(from)
	if err != nil {
		return err
	}
	ctx, people := cmd.Context(), cmd.ErrOrStderr()
	var entries int64
	err = watch(ctx, people, "exporting "+units.FormatSize(info.DiskBytes), f.of(info, 16*info.Slots), func() (err error) {
		c, _, err := openCache(from, f)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		entries, err = c.ExportPFIO(ctx, to, f.overwrite)
		return err
	})
	if err != nil {
		return err
	}
	st, err := os.Stat(to)
	if err != nil {
		return err
	}
	if f.json {
		return stdoutError(writeJSON(cmd.OutOrStdout(), struct {
			Path    string `json:"path"`
			Slots   int64  `json:"slots"`
			Entries int64  `json:"entries"`
			Bytes   int64  `json:"bytes"`
		}{to, info.Slots, entries, st.Size()}))
	}
	fmt.Fprintf(people, "%s: %s, %s; pfio preloads it into a cache of length %d\n", terminal.Name(to),
		entriesText(entries), units.FormatSize(st.Size()), info.Slots)
	return nil
}

func cacheCollectCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("gc [DIR]", "Remove what killed processes left",
		`Gc removes hidden files of caches that no live process holds from a directory; without DIR, from the one where caches
without a name are made ($LEAT_CACHE_DIR, else leat below the user's cache directory). On most file systems the
kernel leaves nothing to remove. Named and preserved caches are never touched.`,
		`  leat cache gc
  leat cache gc /scratch`,
		func(cmd *cobra.Command, args []string) error {
			var dir string
			var err error
			if len(args) == 1 {
				dir = args[0]
			} else if dir, err = cache.Dir(); err != nil {
				return err
			}
			return collectCaches(cmd, dir, f)
		})
	f.addJSON(c, "one JSON object for each file that was removed")
	return c
}

func collectCaches(cmd *cobra.Command, dir string, f *cacheFlags) error {
	removed, err := cache.GC(dir)
	for _, path := range removed {
		var werr error
		if f.json {
			werr = writeJSON(cmd.OutOrStdout(), struct {
				Removed string `json:"removed"`
			}{path})
		} else {
			_, werr = fmt.Fprintln(cmd.OutOrStdout(), "removed", terminal.Name(path))
		}
		if werr != nil {
			return errors.Join(err, stdoutError(werr))
		}
	}
	if len(removed) == 0 && err == nil && !f.json {
		fmt.Fprintln(cmd.ErrOrStderr(), "leat: nothing to remove in", terminal.Name(dir))
	}
	return err
}
