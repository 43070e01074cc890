package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

func cacheStatCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("stat FILE", "Show what a cache is and what was done with it",
		`Stat shows the size of a cache, its limit, whether it still takes entries, whether a process has it open, and
what all processes counted since it was made: entries stored, puts refused and why, damaged entries met.`,
		`  leat cache stat samples.cache
  leat cache stat --json samples.cache | jq .counters.bad`,
		func(cmd *cobra.Command, args []string) error {
			d, err := statCache(args[0], f)
			if err != nil {
				return err
			}
			if d.problem != nil {
				printWarning(cmd.ErrOrStderr(), fmt.Errorf("no counters: %w", d.problem))
			}
			if f.json {
				return stdoutError(writeJSON(cmd.OutOrStdout(), d))
			}
			return stdoutError(d.text(cmd.OutOrStdout()))
		})
	f.addJSON(c, "one JSON object; counters are null where they can't be read, as in a preserved cache")
	f.addRemote(c)
	return c
}

// cacheDoc is a cache file in --json.
type cacheDoc struct {
	Path       string         `json:"path"`
	UUID       string         `json:"uuid"`
	Slots      int64          `json:"slots"`
	Entries    int64          `json:"entries"` // that were put; of a preserved one, that it has
	Bytes      int64          `json:"bytes"`   // of the file that are given out
	DiskBytes  int64          `json:"disk_bytes"`
	MaxBytes   *int64         `json:"max_bytes"` // null for no limit
	Frozen     bool           `json:"frozen"`
	Preserved  bool           `json:"preserved"`
	Held       bool           `json:"held"`     // a process has it open
	Leftover   bool           `json:"leftover"` // a hidden name: gc removes it, unless held
	Durability string         `json:"durability"`
	Modified   time.Time      `json:"modified"`
	Counters   *cacheCounters `json:"counters"`
	problem    error          // why there are no counters
}

type cacheCounters struct {
	Stored    int64 `json:"stored"`
	Filled    int64 `json:"filled"`
	Lost      int64 `json:"lost"`
	Refused   int64 `json:"refused"`
	Full      int64 `json:"full"`
	NoSpace   int64 `json:"no_space"`
	Bad       int64 `json:"bad"`
	Repaired  int64 `json:"repaired"`
	Faults    int64 `json:"faults"`
	DeadBytes int64 `json:"dead_bytes"`
}

func newCacheDoc(i cache.Info) *cacheDoc {
	d := &cacheDoc{
		Path: i.Path, UUID: i.UUID, Slots: i.Slots, Entries: i.Entries, Bytes: i.Bytes, DiskBytes: i.DiskBytes,
		Frozen: i.Frozen, Preserved: i.Preserved,
		Held: i.Held, Leftover: i.Leftover, Durability: durabilityText(i.Durable), Modified: i.Modified,
	}
	if i.MaxBytes > 0 {
		d.MaxBytes = &i.MaxBytes
	}
	return d
}

// statCache describes a cache. One that can be read but not opened is described without counters.
func statCache(path string, f *cacheFlags) (*cacheDoc, error) {
	info, err := inspectCache(path)
	if err != nil {
		return nil, err
	}
	d := newCacheDoc(info)
	if info.Preserved { // they are of no process any more
		return d, nil
	}
	c, _, err := openCache(path, f)
	if err != nil {
		d.problem = err
		return d, nil
	}
	s, err := c.Stats()
	d.Counters = &cacheCounters{s.Stored, s.RefusedFilled, s.RefusedRace, s.RefusedFrozen, s.RefusedFull,
		s.RefusedNoSpace, s.Bad, s.Repaired, s.Faults, s.DeadBytes}
	return d, errors.Join(err, c.Close())
}

func (d *cacheDoc) state() string {
	text := "takes entries"
	switch {
	case d.Leftover && !d.Held:
		text = "left by a killed process"
	case d.Preserved:
		text = "preserved"
	case d.Frozen:
		text = "frozen"
	}
	if d.Held {
		text += ", in use"
	}
	return text
}

func (d *cacheDoc) text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(t, terminal.Name(d.Path))
	line("state", "%s", d.state())
	line("slots", "%d", d.Slots)
	line("entries", "%d", d.Entries)
	line("file", "%s, %s on the disk", units.FormatSize(d.Bytes), units.FormatSize(d.DiskBytes))
	if d.MaxBytes != nil {
		line("limit", "%s", units.FormatSize(*d.MaxBytes))
	} else {
		line("limit", "none")
	}
	line("durability", "%s", d.Durability)
	line("modified", "%s", d.Modified.Local().Format("2006-01-02 15:04:05"))
	line("uuid", "%s", d.UUID)
	if k := d.Counters; k != nil {
		line("puts", "%d stored, refused: %d filled, %d lost, %d frozen, %d full, %d without disk space", k.Stored,
			k.Filled, k.Lost, k.Refused, k.Full, k.NoSpace)
		line("damage", "%d reads of damaged entries, %d repaired, %d faults", k.Bad, k.Repaired, k.Faults)
		line("dead", "%s", units.FormatSize(k.DeadBytes))
	}
	return t.Flush()
}

func durabilityText(d cache.Durability) string {
	return [...]string{"none", "batch", "each"}[d]
}

func cacheListCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("ls [FILE]", "List the entries of a cache, or the caches of a directory",
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
	f.addJSON(c, "one JSON object a line: slot, bytes, offset, bad; of a directory, the object of stat --json without counters")
	f.addRemote(c)
	return c
}

// listEntries streams: there may be millions.
func listEntries(ctx context.Context, w io.Writer, path string, f *cacheFlags) (err error) {
	c, info, err := openCache(path, f)
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
			err = writeJSON(out, struct {
				Slot   int64 `json:"slot"`
				Bytes  int64 `json:"bytes"`
				Offset int64 `json:"offset"`
				Bad    bool  `json:"bad"`
			}{e.Slot, e.Length, e.Offset, e.Bad})
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

// slotsText are some slots out of count.
func slotsText(some []int64, count int64) string {
	const most = 10
	var list []string
	for _, i := range some[:min(len(some), most)] {
		list = append(list, strconv.FormatInt(i, 10))
	}
	text := strings.Join(list, ", ")
	if more := count - int64(len(list)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
