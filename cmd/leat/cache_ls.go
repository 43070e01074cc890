package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

func cacheListCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("ls [FILE|DIR]", "List the entries of a cache, or the caches of a directory",
		`Ls lists the filled slots of a cache, one a line: number and bytes of the entry, or "damaged". Only their
headers are read: check reads the data too. Of a directory it lists the cache files; without FILE, of the one
where caches without a name are made ($LEAT_CACHE_DIR, else leat below the user's cache directory).`,
		`  leat cache ls samples.cache
  leat cache ls --json samples.cache | jq .bytes
  leat cache ls /scratch/caches`,
		func(cmd *cobra.Command, args []string) error {
			var path string
			if len(args) == 1 {
				path = args[0]
			} else {
				var err error
				if path, err = cache.Dir(); err != nil {
					return err
				}
			}
			if st, err := os.Stat(path); err == nil && st.IsDir() {
				return listCaches(cmd.OutOrStdout(), path, f)
			}
			return listEntries(cmd.Context(), cmd.OutOrStdout(), path, f)
		})
	f.addJSON(c, "one JSON object a line: slot, bytes, offset_bytes, damaged_entry; of a directory, the object of stat --json without counters")
	f.addRemote(c)
	return c
}

// entryDoc is an entry of a cache in --json.
type entryDoc struct {
	Slot    int64 `json:"slot"` // counted from 0
	Bytes   int64 `json:"bytes"`
	Offset  int64 `json:"offset_bytes"` // in the file
	Damaged bool  `json:"damaged_entry"`
}

// listEntries streams: there may be millions.
func listEntries(ctx context.Context, w io.Writer, path string, f *cacheFlags) (err error) {
	c, info, err := readCache(path, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	out := bufio.NewWriterSize(w, 64<<10)
	width := max(len("SLOT"), len(strconv.FormatInt(info.Slots-1, 10)))
	if !f.json {
		fmt.Fprintf(out, "%*s  %s\n", width, "SLOT", "BYTES")
	}
	err = c.Each(ctx, func(e cache.Entry) error {
		var err error
		switch {
		case f.json:
			err = writeJSON(out, entryDoc{e.Slot, e.Length, e.Offset, e.Bad})
		case e.Bad:
			_, err = fmt.Fprintf(out, "%*d  damaged\n", width, e.Slot)
		default:
			_, err = fmt.Fprintf(out, "%*d  %d\n", width, e.Slot, e.Length)
		}
		return stdoutError(err)
	})
	return errors.Join(err, stdoutError(out.Flush()))
}

func listCaches(w io.Writer, dir string, f *cacheFlags) error {
	infos, err := cache.List(dir)
	if err != nil {
		return err
	}
	if f.json {
		for _, i := range infos {
			if err := writeJSON(w, newCacheDoc(i)); err != nil {
				return stdoutError(err)
			}
		}
		return nil
	}
	if len(infos) == 0 {
		_, err := fmt.Fprintln(w, "no caches in", terminal.Name(dir))
		return stdoutError(err)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENTRIES\tSLOTS\tON DISK\tMODIFIED\tSTATE\tFILE")
	for _, i := range infos {
		d := newCacheDoc(i)
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%s\n", d.Entries, d.Slots, units.FormatSize(d.DiskBytes), clock(d.Modified),
			d.state(), terminal.Name(d.Path))
	}
	return stdoutError(t.Flush())
}
