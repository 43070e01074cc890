package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"leat/namespace"
	"leat/shm"
)

func jobsCollectCommand() *cobra.Command {
	var asJSON, dryRun bool
	c := &cobra.Command{
		Use:                   "gc [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Remove what killed jobs left",
		Long: `Gc removes records, shared memory and arrays that no live process holds. Nothing that is in use is touched.
Jobs reclaim such leftovers by themselves, a few at each start; gc does all of it now.`,
		Example: `  leat jobs gc --plan
  leat jobs gc`,
		Args: noArguments("jobs gc"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return collectJobs(cmd.OutOrStdout(), asJSON, dryRun)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each file that was removed")
	addDryRun(c, &dryRun)
	return c
}

// addDryRun adds --dry-run to a command that removes files.
func addDryRun(c *cobra.Command, dryRun *bool) {
	c.Flags().BoolVar(dryRun, "dry-run", false, "show what would be removed, and remove nothing")
}

// collectJobs removes what no process holds, or with dryRun only lists it.
func collectJobs(w io.Writer, asJSON, dryRun bool) error {
	if err := namespace.Usable(); err != nil {
		return err
	}
	removed, err := namespace.GC(dryRun)
	arrays, err1 := shm.GC(nil, dryRun)
	removed = append(removed, arrays...)
	for _, path := range removed {
		if werr := printRemoved(w, path, asJSON, dryRun); werr != nil {
			return errors.Join(err, err1, werr)
		}
	}
	if len(removed) == 0 && !asJSON {
		fmt.Fprintln(os.Stderr, "leat: nothing to remove")
	}
	return errors.Join(err, err1)
}
