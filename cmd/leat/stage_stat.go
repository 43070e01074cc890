package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/stage"
)

func stageStatCommand() *cobra.Command {
	f := &stageFlags{}
	c := newStageCommand("stat", "Show what a stage holds and what was done with it",
		`Stat shows how much space the objects in the directory take, how many processes use it, and what all processes counted
since it was made.`,
		`  leat stage stat
  leat stage stat --json | jq .counters.read_through`,
		nil,
		func(cmd *cobra.Command, _ []string) error { return statStage(cmd, f) })
	f.addDir(c)
	f.addJSON(c, "one JSON object: dir, bytes, objects, processes besides this one, counters")
	return c
}

func statStage(cmd *cobra.Command, f *stageFlags) (err error) {
	p, dir, err := f.look(cmd.Context())
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("nothing is staged in %s, and nothing ever was", dir)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	u, err := p.Usage()
	if err != nil {
		return err
	}
	u.Processes-- // this one
	if f.json {
		return stdoutError(writeJSON(cmd.OutOrStdout(), u))
	}
	return stdoutError(usageOf(cmd.OutOrStdout(), u))
}

func usageOf(w io.Writer, u stage.Usage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(t, terminal.Name(u.Dir))
	line("on disk", "%s in %s", units.FormatSize(u.Bytes), units.Count(u.Objects, "object"))
	line("in use by", "%s", units.Plural(u.Processes, "other process", "other processes"))
	c := u.Since
	line("asked for", "%d there, %d copied, %d copied by another process, %d read through", c.Hits, c.Misses, c.Shared,
		c.ReadThrough)
	line("copied", "%s", units.FormatSize(c.Bytes))
	line("evicted", "%d", c.Evicted)
	line("compared", "%d, %d of them changed", c.Checks, c.Changed)
	line("requests", "%s read, %d tried again, %d errors", units.Count(c.Reads, "object"), c.Retries, c.Errors)
	line("no space", "%d waited, %d too large, %d while the disk was full, %d beyond the queue", c.Waits, c.TooLarge,
		c.DiskFull, c.NotQueued)
	line("damage", "%d", c.Damaged)
	return t.Flush()
}
