package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addCompletion adds leat completion, whose mistakes are those of a command line.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return nil
		}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		for _, shell := range c.Commands() {
			shell.Args = noArguments(shell.Name())
		}
	}
}

// describeForCompletion takes the shape of the value from the usage of all flags, since shells show
// the usage as it is.
func describeForCompletion(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if value, text := pflag.UnquoteUsage(f); strings.HasPrefix(f.Usage, "`") {
			f.Usage = strings.TrimPrefix(text, value+": ")
		}
	})
	for _, sub := range c.Commands() {
		describeForCompletion(sub)
	}
}
