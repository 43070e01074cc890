package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// stageCommand is leat stage.
func stageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "stage",
		Short: "Bring remote objects to the local disk, for all processes",
		Long: `Stage copies objects of buckets and web servers (s3, gs, azblob, http, https, file) to a directory on a local disk
that all processes of this machine share: each object once, whoever asks, within one limit. What nobody uses stays
until its space is needed. Programs use the same directory through the Go package leat/stage; these commands may run
meanwhile.

Data go to standard output, messages to standard error. The exit code is 0 for success, 1 for a failure, 2 for a
mistake in the command line.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(stageGetCommand(), stagePrefetchCommand(), stageListCommand(), stageStatCommand(), stagePinCommand(),
		stageCollectCommand())
	return c
}

// newStageCommand is a command; args says what is wrong with its arguments.
func newStageCommand(use, short, long, example string, args cobra.PositionalArgs,
	run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	name, _, _ := strings.Cut(use, " ")
	if args == nil {
		args = func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("stage %s takes no argument: %q", name, args[0])
			}
			return nil
		}
	}
	before, behind, _ := strings.Cut(use, " [--")
	if behind != "" {
		behind = " [--" + behind
	}
	c := &cobra.Command{
		Use: before + " [options]" + behind, DisableFlagsInUseLine: true, Short: short, Long: long, Example: example,
		Args: args,
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd, args) },
	}
	c.Flags().SortFlags = false
	return c
}
