package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/stage"
)

func stageCollectCommand() *cobra.Command {
	f := &stageFlags{}
	var all bool
	var older, bytes string
	c := newStageCommand("gc", "Remove what killed processes left, and what nobody uses",
		`Gc gives back what processes that died had reserved or were writing; every process that opens the directory does so too.
With --all it removes all objects that no process uses, with --older those that were not used for so long, with --bytes
those that were not used for longest until the others take no more than that.`,
		`  leat stage gc
  leat stage gc --older 7d --bytes 100G`,
		nil,
		func(cmd *cobra.Command, _ []string) error {
			t, err := newTrim(cmd, all, older, bytes)
			if err != nil {
				return err
			}
			return collectStage(cmd, t, f)
		})
	f.addDir(c)
	c.Flags().BoolVar(&all, "all", false, "remove all that nobody uses")
	c.Flags().StringVar(&older, "older", "", "`TIME`: remove what nobody used for so long, such as 12h or 7d")
	c.Flags().StringVar(&bytes, "bytes", "", "`SIZE`: remove until no more than that is left, such as 100G")
	f.addJSON(c, "one JSON object: dir, dead (processes), removed (objects), freed, bytes and objects that are left")
	return c
}

// trim is what gc is to remove.
type trim struct {
	unused time.Duration // -1: whatever its age
	bytes  int64         // -1: any number may stay
}

func newTrim(cmd *cobra.Command, all bool, older, bytes string) (t trim, err error) {
	t = trim{-1, -1}
	set := cmd.Flags().Changed
	if all && (set("older") || set("bytes")) {
		err = usagef("--all removes everything: leave out --older and --bytes")
	}
	if all {
		t.bytes = 0
	}
	if set("older") {
		var err1 error
		if t.unused, err1 = parseAge(older); err1 != nil {
			err = errors.Join(err, usagef("--older %s: %w", older, err1))
		}
	}
	if set("bytes") {
		var err1 error
		if t.bytes, err1 = units.ParseSize(bytes); err1 != nil {
			err = errors.Join(err, usagef("--bytes %s: %w; --all removes everything", bytes, err1))
		}
	}
	return t, err
}

// collectDoc is what gc did, in --json.
type collectDoc struct {
	Dir     string `json:"dir"`
	Dead    int    `json:"dead_processes"`  // whose leftovers were given back
	Removed int    `json:"removed_objects"` // besides what dead processes had under way
	Freed   int64  `json:"freed_bytes"`     // of the removed
	Bytes   int64  `json:"bytes"`           // that are left on the disk
	Objects int64  `json:"objects"`         // that are left
}

func collectStage(cmd *cobra.Command, t trim, f *stageFlags) (err error) {
	dir, there, err := f.existing()
	if err != nil {
		return err
	}
	d := collectDoc{Dir: filepath.Join(dir, "stage")}
	if there {
		if err := d.collect(cmd, dir, t); err != nil {
			return err
		}
	}
	if f.json {
		return stdoutError(writeJSON(cmd.OutOrStdout(), d))
	}
	people := cmd.ErrOrStderr()
	if d.Dead > 0 {
		fmt.Fprintf(people, "leat: what %s left was given back\n",
			units.Plural(d.Dead, "dead process", "dead processes"))
	}
	switch {
	case d.Removed > 0:
		fmt.Fprintf(people, "leat: %s removed, %s\n", units.Count(d.Removed, "object"),
			units.FormatSize(d.Freed))
	case d.Dead == 0:
		fmt.Fprintln(people, "leat: nothing to remove in", terminal.Name(d.Dir))
	}
	return nil
}

func (d *collectDoc) collect(cmd *cobra.Command, dir string, t trim) (err error) {
	ctx := cmd.Context()
	before := processFiles(d.Dir)
	p, err := stage.OpenContext(ctx, dir, &stage.Options{Logger: slog.New(&peopleHandler{w: cmd.ErrOrStderr()})})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	after := processFiles(d.Dir)
	for name := range before {
		if !after[name] {
			d.Dead++
		}
	}
	full, err := p.Usage()
	if err != nil {
		return err
	}
	if t.unused >= 0 {
		n, err := p.RemoveUnused(ctx, time.Now().Add(-t.unused))
		if d.Removed += n; err != nil {
			return d.interrupted(cmd, err)
		}
	}
	if t.bytes >= 0 {
		n, err := p.Trim(ctx, t.bytes)
		if d.Removed += n; err != nil {
			return d.interrupted(cmd, err)
		}
	}
	left, err := p.Usage()
	if err != nil {
		return err
	}
	d.Bytes, d.Objects, d.Freed = left.Bytes, left.Objects, max(0, full.Bytes-left.Bytes)
	if t.bytes >= 0 && left.Bytes > t.bytes {
		fmt.Fprintf(cmd.ErrOrStderr(), "leat: %s in %s are in use, and stay\n", units.FormatSize(left.Bytes),
			units.Count(left.Objects, "object"))
	}
	return nil
}

func (d *collectDoc) interrupted(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return fmt.Errorf("interrupted: %s removed", units.Plural(d.Removed, "object was", "objects were"))
	}
	return err
}

// processFiles are the files of the processes that use a directory, or did until they died.
func processFiles(dir string) map[string]bool {
	entries, err := os.ReadDir(filepath.Join(dir, "procs"))
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names[e.Name()] = true
		}
	}
	return names
}
