package main

import (
	"github.com/spf13/cobra"

	"leat/namespace"
)

// jobsCommand is leat jobs.
func jobsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "jobs",
		Aliases: []string{"ns"}, // the earlier name
		Short:   "See what jobs share on this machine",
		Long: `Jobs shows the namespaces of this user's jobs on this machine, the directories and files that they claim,
their processes, and the arrays that they share; and it removes what killed ones left.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(jobsListCommand(), jobsShowCommand(), jobsCollectCommand())
	return c
}

func noArguments(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("%s takes no argument: %q", name, args[0])
		}
		return nil
	}
}

// jobDoc is a namespace in --json.
type jobDoc struct {
	Kind string `json:"kind"` // namespace
	namespace.Job
}

// newJobDoc describes a namespace.
func newJobDoc(j namespace.Job) jobDoc {
	j.Since = j.Since.UTC()
	j.Claims = append([]namespace.Claim{}, j.Claims...)
	j.Members = append([]namespace.Member{}, j.Members...)
	j.Shared = append([]namespace.Shared{}, j.Shared...)
	return jobDoc{"namespace", j}
}

func liveText(live bool) string {
	if live {
		return "live"
	}
	return "dead"
}
