package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"leat/internal/terminal"
	"leat/internal/units"
)

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
		c, _, err := readCache(from, f)
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
		return stdoutError(writeJSON(cmd.OutOrStdout(), writtenDoc{to, info.Slots, entries, st.Size(), nil}))
	}
	fmt.Fprintf(people, "%s: %s, %s; pfio preloads it into a cache of length %d\n", terminal.Name(to),
		entriesText(entries), units.FormatSize(st.Size()), info.Slots)
	return nil
}
