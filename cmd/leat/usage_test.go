package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestHelpGroupsKeepTheirOptions checks that no command sorts options that stand in groups: a
// heading would then stand above options of other groups.
func TestHelpGroupsKeepTheirOptions(t *testing.T) {
	t.Parallel()
	for _, c := range manCommands(rootCommand()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Annotations[flagGroup]) > 0 && c.Flags().SortFlags {
				t.Errorf("%s: the options are sorted, but --%s begins a group", c.CommandPath(), f.Name)
			}
		})
	}
}

// TestExamplesUsePresentNames checks that no example has the earlier name of an option.
func TestExamplesUsePresentNames(t *testing.T) {
	t.Parallel()
	for _, c := range manCommands(rootCommand()) {
		for _, word := range strings.Fields(c.Example) {
			name, isOption := strings.CutPrefix(word, "--")
			if present, ok := earlierFlags[name]; ok && isOption {
				t.Errorf("%s: an example has --%s instead of --%s", c.CommandPath(), name, present)
			}
		}
	}
}
