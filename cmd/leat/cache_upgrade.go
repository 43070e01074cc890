package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

func cacheUpgradeCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("upgrade FILE [NEW]", "Copy a cache into the current version of the format",
		`Upgrade copies a cache that an older leat made into a file of the current version of the format, to which Python
programs can write too. leat itself reads and fills both versions. NEW is the name of the copy. Without NEW, the copy
replaces FILE in one step, and no process may have FILE open unless it is preserved. A frozen cache stays frozen, and
a preserved one preserved. The copy has no dead bytes. Slots with damaged entries become empty, and the counters
start at zero.`,
		`  leat cache upgrade samples.cache
  leat cache upgrade samples.cache samples-v2.cache`,
		func(cmd *cobra.Command, args []string) error {
			to := args[0]
			if len(args) == 2 {
				to = args[1]
			}
			return upgradeCache(cmd, args[0], to, f)
		})
	f.addOverwrite(c, "NEW")
	f.addJSON(c, "one JSON object: path, slots, entries, bytes, and dropped_entries: damaged ones that became empty")
	f.addRemote(c)
	return c
}

func upgradeCache(cmd *cobra.Command, path, to string, f *cacheFlags) error {
	people := cmd.ErrOrStderr()
	info, err := inspectCache(path)
	if err != nil {
		return err
	}
	if st, err := os.Lstat(path); to == path && err == nil && st.Mode()&os.ModeSymlink != 0 {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is a symbolic link, which the copy would replace: give %s, the file that it leads to", path,
			target)
	}
	if err := free(to, f.overwrite || to == path); err != nil {
		return err
	}
	var dropped int64
	err = watch(cmd.Context(), people, "copying "+units.FormatSize(info.DiskBytes), f.of(info, 0), func() (err error) {
		dropped, err = cache.Upgrade(cmd.Context(), path, to, f.overwrite,
			&cache.Options{AllowRemote: f.remote, Progress: f.done.Store})
		return err
	})
	if to == path && errors.Is(err, cache.ErrCurrent) {
		if f.json {
			return stdoutError(writeJSON(cmd.OutOrStdout(),
				writtenDoc{to, info.Slots, info.Entries, info.Bytes, &dropped}))
		}
		fmt.Fprintf(people, "%s: version %d already\n", terminal.Name(path), info.Version)
		return nil
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
		return stdoutError(writeJSON(cmd.OutOrStdout(), writtenDoc{to, done.Slots, done.Entries, done.Bytes, &dropped}))
	}
	fmt.Fprintf(people, "%s: %s, %s, version %d\n", terminal.Name(to), entriesText(done.Entries),
		units.FormatSize(done.Bytes), done.Version)
	return nil
}
