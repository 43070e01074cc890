package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/stage"
)

func stageCollectCommand() *cobra.Command {
	f := &stageFlags{}
	var all, dryRun bool
	var older, bytes string
	c := newStageCommand("gc", "Remove what killed processes left, and what nobody uses",
		`Gc frees the space that processes which died had reserved or were writing to, as every process does that opens the
directory. It removes versions of objects that were replaced and that no process uses any more.
With --all it removes all objects that no process uses, with --older those that were not used for so long, with --bytes
those that were not used for longest until the others take no more than that. What is in use stays. An object that
can't be removed is an error; the others are removed nevertheless.`,
		`  leat stage gc
  leat stage gc --older 7d --plan
  leat stage gc --older 7d --bytes 100G`,
		nil,
		func(cmd *cobra.Command, _ []string) error {
			t, err := newTrim(cmd, all, older, bytes)
			if err != nil {
				return err
			}
			t.dryRun = dryRun
			return collectStage(cmd, t, f)
		})
	f.addDir(c)
	c.Flags().BoolVar(&all, "all", false, "remove all that nobody uses")
	c.Flags().StringVar(&older, "older", "", "`TIME`: remove what nobody used for so long, such as 12h or 7d")
	c.Flags().StringVar(&bytes, "bytes", "", "`SIZE`: remove until no more than that is left, such as 100G")
	f.addJSON(c, "one JSON object: dir, dead (processes), removed and failed (objects), freed, bytes and objects that are left")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "count the objects that would be removed if none were in use, and remove none")
	return c
}

// trim is what gc is to remove.
type trim struct {
	unused time.Duration // -1: whatever its age
	bytes  int64         // -1: any number may stay
	dryRun bool          // nothing is removed
}

func newTrim(cmd *cobra.Command, all bool, older, bytes string) (t trim, err error) {
	t = trim{unused: -1, bytes: -1}
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
	Failed  int    `json:"failed_objects"`  // that could not be removed
	Freed   int64  `json:"freed_bytes"`     // of the removed
	Bytes   int64  `json:"bytes"`           // that are left on the disk
	Objects int64  `json:"objects"`         // that are left
	DryRun  bool   `json:"dry_run"`         // nothing was removed: the numbers are what would be if no object were in use
}

func collectStage(cmd *cobra.Command, t trim, f *stageFlags) (err error) {
	dir, there, err := f.existing()
	if err != nil {
		return err
	}
	d := collectDoc{Dir: filepath.Join(dir, "stage"), DryRun: t.dryRun}
	var kept error // why objects could not be removed
	if there {
		if kept, err = d.collect(cmd, dir, t); err != nil {
			return errors.Join(kept, err)
		}
	}
	if f.json {
		return errors.Join(kept, stdoutError(writeJSON(cmd.OutOrStdout(), d)))
	}
	people := cmd.ErrOrStderr()
	if d.Dead > 0 {
		fmt.Fprintf(people, "leat: what %s left was given back\n",
			units.Plural(d.Dead, "dead process", "dead processes"))
	}
	switch {
	case d.Removed > 0 && t.dryRun:
		fmt.Fprintf(people, "leat: %s would be removed, %s; those in use would stay\n", units.Count(d.Removed, "object"),
			units.FormatSize(d.Freed))
	case d.Removed > 0:
		fmt.Fprintf(people, "leat: %s removed, %s\n", units.Count(d.Removed, "object"),
			units.FormatSize(d.Freed))
	case d.Dead == 0 && d.Failed == 0:
		fmt.Fprintln(people, "leat: nothing to remove in", terminal.Name(d.Dir))
	}
	return kept
}

// collect removes objects. kept joins the errors of those that can't be removed.
func (d *collectDoc) collect(cmd *cobra.Command, dir string, t trim) (kept, err error) {
	ctx := cmd.Context()
	before := processFiles(d.Dir)
	p, err := stage.Open(ctx, dir, &stage.Options{Logger: slog.New(&peopleHandler{w: cmd.ErrOrStderr()})})
	if err != nil {
		return nil, err
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
		return nil, err
	}
	if t.dryRun {
		return nil, d.count(ctx, p, t)
	}
	since := time.Time{} // replaced versions alone
	if t.unused >= 0 {
		since = time.Now().Add(-t.unused)
	}
	failed := map[string]*stage.RemoveError{} // both steps may meet the same object
	note := func(n int, err error) error {
		d.Removed += n
		other := removeErrors(err, failed)
		if other != nil {
			return d.interrupted(cmd, other)
		}
		return nil
	}
	err = note(p.RemoveUnused(ctx, since))
	if err == nil && t.bytes >= 0 {
		err = note(p.Trim(ctx, t.bytes))
	}
	d.Failed = len(failed)
	for _, object := range slices.Sorted(maps.Keys(failed)) {
		kept = errors.Join(kept, failed[object])
	}
	if err != nil {
		return kept, err
	}
	left, err := p.Usage()
	if err != nil {
		return kept, err
	}
	d.Bytes, d.Objects, d.Freed = left.Bytes, left.Objects, max(0, full.Bytes-left.Bytes)
	if t.bytes >= 0 && left.Bytes > t.bytes && d.Failed == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "leat: %s in %s are in use, and stay\n", units.FormatSize(left.Bytes),
			units.Count(left.Objects, "object"))
	}
	return kept, nil
}

// removeErrors adds the errors of objects that can't be removed to failed, and returns the others.
func removeErrors(err error, failed map[string]*stage.RemoveError) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var others []error
		for _, one := range joined.Unwrap() {
			others = append(others, removeErrors(one, failed))
		}
		return errors.Join(others...)
	}
	if e := new(stage.RemoveError); errors.As(err, &e) {
		failed[e.Object] = e
		return nil
	}
	return err
}

// count counts what collect would remove if no object were in use.
func (d *collectDoc) count(ctx context.Context, p *stage.Pool, t trim) error {
	type object struct{ used, bytes int64 }
	var list []object
	for o, err := range p.Objects() {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		list = append(list, object{o.Used.UnixNano(), o.DiskBytes})
		d.Bytes, d.Objects = d.Bytes+o.DiskBytes, d.Objects+1
	}
	slices.SortFunc(list, func(a, b object) int { return cmp.Compare(a.used, b.used) })
	since := time.Now().Add(-t.unused).UnixNano()
	for _, o := range list {
		if !(t.unused >= 0 && o.used < since) && !(t.bytes >= 0 && d.Bytes > t.bytes) {
			break // the others are younger
		}
		d.Removed, d.Freed = d.Removed+1, d.Freed+o.bytes
		d.Bytes, d.Objects = d.Bytes-o.bytes, d.Objects-1
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
