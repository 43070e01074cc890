package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Columns of help texts: where what an option does begins, and where lines end.
const (
	usageIndent = 34
	usageWidth  = 100
)

// flagGroup is the annotation of a flag that begins a group; its value is the heading.
const flagGroup = "group"

// group makes the flag begin a group of options under a heading in the help.
func group(fl *pflag.FlagSet, flag, heading string) {
	if err := fl.SetAnnotation(flag, flagGroup, []string{heading}); err != nil {
		panic(err)
	}
}

// usageText prints the part of a command's help after its description. The usage of a flag may
// begin with the shape of its value in backquotes and a colon.
func usageText(c *cobra.Command) error {
	var b strings.Builder
	fmt.Fprint(&b, "Usage:\n")
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "  %s\n", usage)
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		commandsText(&b, c)
	}
	first := true
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if g := f.Annotations[flagGroup]; len(g) > 0 {
			fmt.Fprintf(&b, "\n%s:\n", g[0])
		} else if first {
			fmt.Fprint(&b, "\nOptions:\n")
		}
		first = false
		optionText(&b, f)
	})
	if !c.HasParent() {
		b.WriteString("\nExit codes:\n")
		for _, e := range exitCodes {
			optionLine(&b, "  "+e.code, e.text)
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help describes a command.\n", c.CommandPath())
	}
	if !c.HasParent() {
		b.WriteString("leat completion SHELL prints completions for bash, zsh, fish or powershell.\n")
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// commandsText prints the commands below c: those of leat in groups, with the topics of leat help.
func commandsText(b *strings.Builder, c *cobra.Command) {
	left := slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.Name() == "help"
	})
	print := func(title string, list []*cobra.Command) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s:\n", title)
		for _, sub := range list {
			fmt.Fprintf(b, "  %-11s %s\n", sub.Name(), sub.Short)
		}
	}
	if c.HasParent() {
		print("Commands", left)
		return
	}
	for _, g := range commandGroups {
		var list []*cobra.Command
		for _, name := range g.commands {
			if i := slices.IndexFunc(left, func(sub *cobra.Command) bool { return sub.Name() == name }); i >= 0 {
				list, left = append(list, left[i]), slices.Delete(left, i, i+1)
			}
		}
		print(g.title, list)
	}
	print("Others", left)
	print("Topics of leat help", slices.DeleteFunc(slices.Clone(c.Commands()),
		func(sub *cobra.Command) bool { return !sub.IsAdditionalHelpTopicCommand() }))
}

// optionText prints a flag: its names and value, and from usageIndent on what it does.
func optionText(b *strings.Builder, f *pflag.Flag) {
	value, text := pflag.UnquoteUsage(f)
	text = strings.TrimPrefix(text, value+": ")
	line := "      --" + f.Name
	if f.Shorthand != "" {
		line = "  -" + f.Shorthand + ", --" + f.Name
	}
	switch {
	case value != "" && f.NoOptDefVal != "":
		line += "[=" + value + "]"
	case value != "":
		line += " " + value
	}
	optionLine(b, line, text)
}

// optionLine prints a line of a list: what it is about, and from usageIndent on the text.
func optionLine(b *strings.Builder, line, text string) {
	if len(line) > usageIndent-2 {
		b.WriteString(line + "\n")
		line = ""
	}
	line += strings.Repeat(" ", usageIndent-1-len(line))
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > usageWidth {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", usageIndent-1)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
