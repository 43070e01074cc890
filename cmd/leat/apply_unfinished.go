package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"leat/apply"
	"leat/internal/terminal"
	"leat/internal/units"
)

// listUnfinished prints the unfinished outputs in directories, by default the current one.
func (f *applyFlags) listUnfinished(cmd *cobra.Command, dirs []string) error {
	if len(f.outputs) > 0 {
		return usagef("--unfinished lists directories: leave out -o, as in leat apply --unfinished DIR")
	}
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
				err = writeJSON(w, unfinishedEvent{newEventDoc("unfinished"), s.Path, s.Output, blocksDoc{s.Total, s.Blocks},
					s.Bytes, s.ModTime.UTC(), s.InUse})
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
