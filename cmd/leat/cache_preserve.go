package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/units"
)

func cachePreserveCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("preserve FILE [NEW]", "Make a cache final, for readers everywhere",
		`Preserve makes a cache final: it freezes it for all processes, waits for puts that are under way, verifies every entry
(damaged ones become empty), brings all to the disk and seals it. From then on anybody who may read the file can,
by cache.Load. NEW is another name for the same file, or a copy on another file system; without it, FILE just
becomes final. Programs may go on reading meanwhile. This can't be undone.`,
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
	f.addJSON(c, "one JSON object: path, slots, entries, bytes, and dropped_entries: damaged ones that became empty")
	f.addRemote(c)
	return c
}

func preserveCache(cmd *cobra.Command, path, to string, f *cacheFlags) error {
	overwrite := f.overwrite || to == path
	info, err := inspectCache(path)
	if err != nil {
		return err
	}
	if to == path {
		if err := refuseLink(path, "the preserved cache"); err != nil {
			return err
		}
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
	return f.written(cmd, to, dropped, func(cache.Info) string { return "final" })
}
