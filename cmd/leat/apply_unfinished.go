package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"leat/apply"
)

// leftover says what a run that failed has left, and what can be done with it. args is the command line that ran.
func leftover(left *apply.UnfinishedError, args []string) string {
	what := fmt.Sprintf("%d of %d blocks are kept", left.Done, left.Total)
	if left.Done < 0 {
		what = "what an earlier run did is still"
	}
	text := fmt.Sprintf("%s in %s (%s)", what, strings.Join(left.Paths, ", "), byteText(left.Bytes))
	again, shown := resumeCommand(args)
	if !shown {
		return text + ": the same command with --resume does the rest, and with --discard removes that"
	}
	return text + ": this does the rest, and with --discard instead of --resume removes that:\n  " + again
}

// resumeCommand is the command line that goes on from what one has left. It is not shown where a URL in it has a secret.
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
	var left *apply.UnfinishedError
	if errors.As(err, &left) {
		return left.Err
	}
	return err
}

// discardOutputs removes what runs that failed left of the outputs. Other options do not count, so that a command line can be repeated.
func (f *applyFlags) discardOutputs(cmd *cobra.Command) error {
	if f.resume {
		return usagef("--resume and --discard: give one of them")
	}
	job := &apply.Job{Outputs: map[string]apply.Output{}}
	if err := f.addOutputs(job); err != nil {
		return usageError{err}
	}
	allOutputs(job, func(o *apply.Output) { o.TempDir = f.tempDir })
	list, err := apply.Discard(cmd.Context(), job.Outputs)
	w := cmd.OutOrStdout()
	for _, d := range list {
		var werr error
		switch {
		case f.json:
			werr = writeJSON(w, map[string]any{"event": "discarded", "output": d.Output, "path": d.Path, "bytes": d.Bytes})
		case !f.quiet:
			_, werr = fmt.Fprintf(w, "output %s: removed %s (%s)\n", d.Output, d.Path, byteText(d.Bytes))
		}
		err = errors.Join(err, stdoutError(werr))
	}
	for _, name := range sortedNames(job.Outputs) {
		if err == nil && !f.json && !f.quiet && !slices.ContainsFunc(list, func(d apply.Discarded) bool { return d.Output == name }) {
			_, werr := fmt.Fprintf(w, "output %s: there is no unfinished file of %s\n", name, shown(job.Outputs[name].Path))
			err = stdoutError(werr)
		}
	}
	return err
}
