package main

import (
	"github.com/spf13/cobra"

	"errors"
	"fmt"
	"io"
	"os"

	"leat/internal/terminal"
	"leat/namespace"
	"leat/shm"
)

func jobsCollectCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:                   "gc [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Remove what killed jobs left",
		Long: `Gc removes records, shared memory and arrays that no live process holds. Nothing that is in use is touched.
Jobs reclaim such leftovers by themselves, a few at each start; gc does all of it now.`,
		Example: `  leat jobs gc`,
		Args:    noArguments("gc"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return collectJobs(cmd.OutOrStdout(), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each file that was removed")
	return c
}

// collectJobs removes what nobody holds.
func collectJobs(w io.Writer, asJSON bool) error {
	if err := namespace.Usable(); err != nil {
		return err
	}
	removed, err := namespace.GC()
	arrays, err1 := shm.GC(nil)
	removed = append(removed, arrays...)
	for _, path := range removed {
		var werr error
		if asJSON {
			werr = writeJSON(w, removedDoc{"removed", path})
		} else {
			_, werr = fmt.Fprintln(w, "removed", terminal.Name(path))
		}
		if werr != nil {
			return errors.Join(err, err1, stdoutError(werr))
		}
	}
	if len(removed) == 0 && !asJSON {
		fmt.Fprintln(os.Stderr, "leat: nothing to remove")
	}
	return errors.Join(err, err1)
}
