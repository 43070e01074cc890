package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

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
		return stdoutError(writeJSON(cmd.OutOrStdout(), writtenDoc{to, done.Slots, done.Entries, done.Bytes, &dropped}))
	}
	fmt.Fprintf(people, "%s: %s, %s, final\n", terminal.Name(to), entriesText(done.Entries), units.FormatSize(done.Bytes))
	return nil
}
