package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestCommandsAloneAreThoseOfTheWholeProgram(t *testing.T) {
	text := func(root *cobra.Command, args ...string) string {
		out := new(strings.Builder)
		root.SetArgs(args)
		root.SetOut(out)
		root.SetErr(out)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for name := range alone {
		for _, option := range []string{"--help", "-h"} {
			one, all := text(rootFor([]string{name, option}), name, option), text(rootCommand(), name, option)
			if diff := cmp.Diff(all, one); diff != "" || len(one) < 100 {
				t.Errorf("%s %s, - all commands, + alone:\n%s", name, option, diff)
			}
		}
	}
	one, all := text(rootFor([]string{"--version"}), "--version"), text(rootCommand(), "--version")
	if one != all || !strings.Contains(one, version) {
		t.Errorf("version %q, with all commands %q", one, all)
	}
	for _, args := range [][]string{nil, {"--version", "x"}, {"version"}, {"help", "apply"}, {"nosuch"}, {cobra.ShellCompRequestCmd, ""}} {
		if n := len(rootFor(args).Commands()); n < 15 {
			t.Errorf("%q: %d commands", args, n)
		}
	}
}
