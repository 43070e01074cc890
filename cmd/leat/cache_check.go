package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"leat/cache"
	"leat/internal/terminal"
	"leat/internal/units"
)

func cacheCheckCommand() *cobra.Command {
	f := &cacheFlags{}
	c := newCacheCommand("check FILE", "Read and verify every entry",
		`Check reads every entry and compares it with its checksum, looks for entries that share bytes, and, in a preserved cache,
compares the index with its seal. Damage makes the code 1. Programs may use the cache meanwhile; what they are
writing at that moment counts as dead.`,
		`  leat cache check samples.cache
  leat cache check --json samples.cache | jq .damaged_slots`,
		func(cmd *cobra.Command, args []string) error { return checkCache(cmd, args[0], f) })
	f.addJSON(c, "one JSON object; damaged_slots are the first 100 damaged ones")
	f.addRemote(c)
	return c
}

// checkDoc is what check found, in --json.
type checkDoc struct {
	Path         string  `json:"path"`
	Version      int     `json:"format_version"` // of the file's format
	OK           bool    `json:"ok"`
	Slots        int64   `json:"slots"`
	Entries      int64   `json:"entries"`       // whole ones
	Empty        int64   `json:"empty_slots"`   // slots without an entry
	Damaged      int64   `json:"damaged"`       // entries
	DamagedSlots []int64 `json:"damaged_slots"` // of these, the first 100
	DataBytes    int64   `json:"data_bytes"`    // of the file after its index
	LiveBytes    int64   `json:"live_bytes"`    // of these, in use
	DeadBytes    int64   `json:"dead_bytes"`    // of these, not in use
	Preserved    bool    `json:"preserved"`
	SealBroken   bool    `json:"seal_broken"` // the index is not the one that was preserved
}

func checkCache(cmd *cobra.Command, path string, f *cacheFlags) error {
	info, err := inspectCache(path)
	if err != nil {
		return err
	}
	var r *cache.Report
	err = watch(cmd.Context(), cmd.ErrOrStderr(), "checking "+units.FormatSize(info.DiskBytes), f.of(info, 0),
		func() (err error) {
			c, _, err := readCache(path, f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			r, err = c.Check(cmd.Context())
			return err
		})
	if err != nil {
		return err
	}
	d := &checkDoc{path, info.Version, r.OK(), r.Slots, r.FilledSlots, r.Empty, r.Bad,
		append([]int64{}, r.FirstBad...), r.Bytes, r.LiveBytes, r.DeadBytes, r.Preserved, r.SealBroken}
	if f.json {
		err = writeJSON(cmd.OutOrStdout(), d)
	} else {
		err = d.text(cmd.OutOrStdout())
	}
	return errors.Join(stdoutError(err), d.verdict(info.Frozen))
}

func (d *checkDoc) text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(t, terminal.Name(d.Path))
	line("version", "%d", d.Version)
	line("slots", "%d", d.Slots)
	line("filled", "%d, %s of data", d.Entries, units.FormatSize(d.DataBytes))
	line("empty", "%d", d.Empty)
	line("damaged", "%d", d.Damaged)
	line("dead", "%s", units.FormatSize(d.DeadBytes))
	switch {
	case d.SealBroken:
		line("seal", "broken")
	case d.Preserved:
		line("seal", "intact")
	}
	return t.Flush()
}

// verdict is the error of a damaged cache.
func (d *checkDoc) verdict(frozen bool) error {
	var errs []error
	if d.Damaged > 0 {
		mend := "the next put into each replaces it"
		if frozen {
			mend = "readers find them empty; make the cache again to restore them"
		}
		errs = append(errs, fmt.Errorf("%s: damaged: slot %s; %s", d.Path, slotsText(d.DamagedSlots, d.Damaged), mend))
	}
	if d.SealBroken {
		errs = append(errs, fmt.Errorf("%s: its index is not what was preserved: entries may be missing or exchanged; make the cache again", d.Path))
	}
	return errors.Join(errs...)
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
