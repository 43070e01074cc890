package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
)

func cacheCollectCommand() *cobra.Command {
	f, dryRun := &cacheFlags{}, false
	c := newCacheCommand("gc [DIR]", "Remove what killed processes left",
		`Gc removes hidden files of caches that no live process holds from a directory; without DIR, from the one where caches
without a name are made ($LEAT_CACHE_DIR, else leat below the user's cache directory). On most file systems the
kernel leaves nothing to remove. Named and preserved caches are never touched.`,
		`  leat cache gc --plan
  leat cache gc /scratch`,
		func(cmd *cobra.Command, args []string) error {
			var dir string
			var err error
			if len(args) == 1 {
				dir = args[0]
			} else if dir, err = cache.Dir(); err != nil {
				return err
			}
			return collectCaches(cmd, dir, f, dryRun)
		})
	f.addJSON(c, "one JSON object for each file that was removed")
	addDryRun(c, &dryRun)
	return c
}

func collectCaches(cmd *cobra.Command, dir string, f *cacheFlags, dryRun bool) error {
	removed, err := cache.GC(dir, dryRun)
	for _, path := range removed {
		if werr := printRemoved(cmd.OutOrStdout(), path, f.json, dryRun); werr != nil {
			return errors.Join(err, werr)
		}
	}
	if len(removed) == 0 && err == nil && !f.json {
		fmt.Fprintln(cmd.ErrOrStderr(), "leat: nothing to remove in", terminal.Name(dir))
	}
	return err
}
