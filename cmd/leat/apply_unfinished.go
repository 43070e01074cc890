package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leat/apply"
	"leat/internal/terminal"
	"leat/internal/units"
)

// incompleteMessage returns what a failed run has left, and what the user can do with it. args is
// the command line that ran.
func incompleteMessage(left *apply.IncompleteError, args []string) message {
	what := fmt.Sprintf("%d of %d blocks are kept", left.Done, left.Total)
	if left.Done < 0 {
		what = "the blocks of an earlier run are still"
	}
	m := message{text: fmt.Sprintf("%s in %s (%s)", what, strings.Join(left.Paths, ", "), units.FormatSize(left.Bytes))}
	again, shown := resumeCommand(args)
	switch {
	case !slices.Contains(args, "apply"): // leat demo has no --resume
		m.hint = "the next run of the same command replaces them"
	case !shown:
		m.hint = "use the same command with --resume to compute the rest, or leat apply discard to remove them"
	default:
		m.hint = "use --resume to compute the rest, or discard in its place to remove them:\n  " + again
	}
	m.text, m.hint = terminal.Text(redact(m.text)), terminal.Text(m.hint)
	return m
}

// resumeCommand is the command line that goes on from what one has left. It is not shown where a
// URL in it has a secret.
func resumeCommand(args []string) (text string, shown bool) {
	at := slices.Index(args, "apply")
	if at < 1 || slices.ContainsFunc(args, func(a string) bool { return redact(a) != a }) {
		return "", false
	}
	again := slices.Clone(args)
	if !slices.Contains(again, "--resume") {
		again = slices.Insert(again, at+1, "--resume")
	}
	return commandLine(again), true
}

// withoutLeftover is why a run failed, without what it has left.
func withoutLeftover(err error) error {
	var left *apply.IncompleteError
	if errors.As(err, &left) {
		return left.Err
	}
	return err
}

// discardUnfinished removes what failed runs left of the outputs, and in directories. Other options
// do not count, so that a command line can be repeated.
func (f *applyFlags) discardUnfinished(cmd *cobra.Command, dirs []string) error {
	switch {
	case f.resume:
		return usagef("--resume and discard: give one of them")
	case f.unfinished:
		return usagef("--unfinished and discard: give one of them")
	case len(dirs) == 0 && len(f.outputs) == 0:
		return usagef("discard: give an output (-o NAME=FILE.tif), or a directory in which all unfinished outputs are to be removed")
	}
	var errs []error
	if len(f.outputs) > 0 {
		errs = append(errs, f.discardOutputs(cmd))
	}
	for _, dir := range dirs {
		errs = append(errs, f.discardDirectory(cmd, dir))
	}
	return errors.Join(errs...)
}

// discardOutputs removes what failed runs left of the outputs.
func (f *applyFlags) discardOutputs(cmd *cobra.Command) error {
	job := &apply.Job{Outputs: map[string]apply.Output{}}
	if err := f.addOutputs(job); err != nil {
		return usageError{err}
	}
	allOutputs(job, func(o *apply.Output) { o.TempDir = f.tempDir })
	list, err := apply.Discard(cmd.Context(), job.Outputs)
	w := cmd.OutOrStdout()
	for _, d := range list {
		err = errors.Join(err, f.discarded(w, d, "output "+d.Output+": removed "+terminal.Name(d.Path)))
	}
	for _, name := range sortedNames(job.Outputs) {
		if err == nil && !f.json && !f.quiet && !slices.ContainsFunc(list,
			func(d apply.Discarded) bool { return d.Output == name }) {
			_, werr := fmt.Fprintf(w, "output %s: there is no unfinished file of %s\n", name,
				shown(job.Outputs[name].Path))
			err = stdoutError(werr)
		}
	}
	return err
}

// discardDirectory removes what failed runs left in a directory.
func (f *applyFlags) discardDirectory(cmd *cobra.Command, dir string) error {
	list, err := apply.DiscardSpools(cmd.Context(), dir)
	w := cmd.OutOrStdout()
	for _, d := range list {
		err = errors.Join(err, f.discarded(w, d, "removed "+terminal.Name(d.Path)))
	}
	if err == nil && len(list) == 0 && !f.json && !f.quiet {
		_, werr := fmt.Fprintf(w, "there is no unfinished file to remove in %s\n", terminal.Name(dir))
		err = stdoutError(werr)
	}
	return err
}

// discarded prints what was removed.
func (f *applyFlags) discarded(w io.Writer, d apply.Discarded, text string) error {
	switch {
	case f.json:
		return stdoutError(writeJSON(w, map[string]any{"event": "discarded", "output": d.Output, "path": d.Path,
			"bytes": d.Bytes}))
	case !f.quiet:
		_, err := fmt.Fprintf(w, "%s (%s)\n", text, units.FormatSize(d.Bytes))
		return stdoutError(err)
	}
	return nil
}

// listUnfinished prints the unfinished outputs in directories, by default the current one.
func (f *applyFlags) listUnfinished(cmd *cobra.Command, dirs []string) error {
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	w := cmd.OutOrStdout()
	var errs []error
	for _, dir := range dirs {
		list, err := apply.ListSpools(cmd.Context(), dir)
		errs = append(errs, err)
		for _, s := range list {
			if f.json {
				err = writeJSON(w, map[string]any{"event": "unfinished", "path": s.Path, "output": s.Output,
					"blocks": s.Blocks, "total": s.Total,
					"bytes": s.Bytes, "modified": s.ModTime.UTC().Format(time.RFC3339), "in_use": s.InUse})
			} else {
				_, err = fmt.Fprintln(w, unfinishedText(s))
			}
			errs = append(errs, stdoutError(err))
		}
		if err == nil && len(list) == 0 && !f.json && !f.quiet {
			_, err = fmt.Fprintf(w, "there is no unfinished output in %s\n", terminal.Name(dir))
			errs = append(errs, stdoutError(err))
		}
	}
	return errors.Join(errs...)
}

// unfinishedText describes an unfinished output in one line.
func unfinishedText(s apply.SpoolFile) string {
	what := "no block"
	if s.Total > 0 {
		what = fmt.Sprintf("%d of %d blocks", s.Blocks, s.Total)
	}
	if s.Output != "" {
		what += " of " + shown(s.Output)
	}
	text := fmt.Sprintf("%s: %s, %s, %s", terminal.Name(s.Path), what, units.FormatSize(s.Bytes),
		s.ModTime.Local().Format("2006-01-02 15:04"))
	if s.InUse {
		text += ", a run is writing it"
	}
	return text
}

// replacedMessage warns of blocks of an earlier run that this one replaces.
func replacedMessage(r *apply.ReplacedBlocks) message {
	m := message{text: fmt.Sprintf("%d of %d blocks of an earlier run in %s are replaced when the first block is done",
		r.Blocks, r.Total, strings.Join(r.Paths, ", ")), hint: "--resume would use them"}
	if len(r.Changes) > 0 {
		m.hint = "--resume can't use them: " + strings.Join(r.Changes, "; ")
	}
	return message{terminal.Text(m.text), terminal.Text(m.hint)}
}
