package main

import (
	"errors"
	"fmt"

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
	if to == path {
		if err := refuseLink(path, "the copy"); err != nil {
			return err
		}
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
	return f.written(cmd, to, dropped, func(i cache.Info) string { return fmt.Sprintf("version %d", i.Version) })
}
