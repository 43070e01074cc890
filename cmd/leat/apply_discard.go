package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"leat/apply"
	"leat/internal/terminal"
	"leat/internal/units"
)

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
	err := f.finalizeFiles()
	if _, err1 := f.outputFlags.addTo(job); err != nil || err1 != nil {
		return usageError{errors.Join(err, err1)}
	}
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
		return stdoutError(writeJSON(w, discardedEvent{newEventDoc("discarded"), d.Path, d.Output, d.Bytes}))
	case !f.quiet:
		_, err := fmt.Fprintf(w, "%s (%s)\n", text, units.FormatSize(d.Bytes))
		return stdoutError(err)
	}
	return nil
}

// discardCommand returns leat apply discard. It takes all options of leat apply, so that a command
// line can be repeated.
func discardCommand() *cobra.Command {
	f := &applyFlags{}
	c := &cobra.Command{
		Use:                   "discard [DIR...] [-o NAME=FILE.tif...]",
		DisableFlagsInUseLine: true,
		Hidden:                true, // the help of leat apply names it
		Short:                 "Remove what failed runs left",
		Long: `Discard removes the unfinished files that failed runs left of outputs (-o), or in whole directories. It accepts
the options of leat apply, so that its command line can be repeated.`,
		Example: `  leat apply discard .
  leat apply discard -o ndvi=ndvi.tif`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.discardUnfinished(cmd, args) },
	}
	f.AddFlags(c.Flags())
	return c
}
