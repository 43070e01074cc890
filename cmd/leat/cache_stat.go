package main

import (
	"errors"
	"fmt"
	"io"
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
  leat cache stat --json samples.cache | jq .counters.damaged_reads`,
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
	Version    int            `json:"format_version"` // of the file's format
	UUID       string         `json:"uuid"`
	Slots      int64          `json:"slots"`
	Entries    int64          `json:"entries"` // that were put; of a preserved one, that it has
	Bytes      int64          `json:"bytes"`   // of the file that are given out
	DiskBytes  int64          `json:"disk_bytes"`
	MaxBytes   *int64         `json:"max_bytes"` // null: no limit
	Frozen     bool           `json:"frozen"`    // it takes no entries
	Preserved  bool           `json:"preserved"`
	Held       bool           `json:"held"`       // a process has it open
	Leftover   bool           `json:"leftover"`   // a hidden name: gc removes it, unless held
	Durability string         `json:"durability"` // none, batch or each
	Modified   time.Time      `json:"modified"`
	Counters   *cacheCounters `json:"counters"` // null: can't be read, or not asked for
	problem    error          // why there are no counters
}

// cacheCounters is what all processes counted since a cache was made.
type cacheCounters struct {
	Stored    int64 `json:"stored_puts"`
	Filled    int64 `json:"refused_filled_puts"`   // the slot has an entry
	Lost      int64 `json:"refused_lost_puts"`     // another process was faster
	Refused   int64 `json:"refused_frozen_puts"`   // the cache is frozen
	Full      int64 `json:"refused_full_puts"`     // the limit is reached
	NoSpace   int64 `json:"refused_no_space_puts"` // the disk is full
	Bad       int64 `json:"damaged_reads"`
	Repaired  int64 `json:"repaired_entries"`
	Faults    int64 `json:"faults"` // reads of a mapping that failed
	DeadBytes int64 `json:"dead_bytes"`
}

// writtenDoc is a cache or a file of pfio that was written, in --json.
type writtenDoc struct {
	Path    string `json:"path"`
	Slots   int64  `json:"slots"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`                     // of the file
	Dropped *int64 `json:"dropped_entries,omitempty"` // by preserve: damaged ones, which became empty slots
}

func newCacheDoc(i cache.Info) *cacheDoc {
	d := &cacheDoc{
		Path: i.Path, Version: i.Version, UUID: i.UUID,
		Slots: i.Slots, Entries: i.Entries, Bytes: i.Bytes, DiskBytes: i.DiskBytes,
		Frozen: i.Frozen, Preserved: i.Preserved,
		Held: i.Held, Leftover: i.Leftover, Durability: durabilityText(i.Durable), Modified: i.Modified.UTC(),
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
	c, _, err := readCache(path, f)
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
	line("version", "%d", d.Version)
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
