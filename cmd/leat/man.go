package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand returns the hidden command that make install and make dist call.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "man DIR",
		DisableFlagsInUseLine: true,
		Hidden:                true,
		Short:                 "Write the man pages of all commands",
		Long:                  `Man writes a man page for each command into a directory.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("leat man takes one directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, c := range manCommands(cmd.Root()) {
				name := filepath.Join(args[0], manName(c)+".1")
				if err := os.WriteFile(name, []byte(manPage(c)), 0o666); err != nil {
					return fmt.Errorf("the man page %s can't be written: %w", name, cause(err))
				}
			}
			return nil
		},
	}
}

// manCommands returns a command and all below it that have man pages.
func manCommands(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if (sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand()) && sub.Name() != "help" {
			list = append(list, manCommands(sub)...)
		}
	}
	return list
}

// manName returns the name of a command's man page, such as leat-stage-get.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns a command's man page in the man macros.
func manPage(c *cobra.Command) string {
	b := &strings.Builder{}
	title := strings.ToUpper(manName(c))
	fmt.Fprintf(b, ".TH %s 1 \"\" \"leat %s\" \"leat\"\n", roff(title), roff(strings.TrimSpace(versionFile)))
	// Neither justified nor hyphenated: options and file names must not be cut.
	fmt.Fprintf(b, ".nh\n.ad l\n.SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	if c.Runnable() || c.HasAvailableSubCommands() {
		fmt.Fprintf(b, ".SH SYNOPSIS\n%s\n", roffLine(manSynopsis(c)))
	}
	if c.Long != "" {
		fmt.Fprint(b, ".SH DESCRIPTION\n")
		manText(b, c.Long)
	}
	manSubcommands(b, c)
	manOptions(b, c)
	if c.HasExample() {
		fmt.Fprint(b, ".SH EXAMPLES\n")
		manText(b, c.Example)
	}
	if c.Runnable() {
		fmt.Fprint(b, ".SH EXIT STATUS\n")
		for _, e := range exitCodes {
			if e.code == otherCodes && c.HasParent() && c.Name() != "pin" {
				continue // of another command
			}
			fmt.Fprintf(b, ".TP\n%s\n%s\n", roff(e.code), roffLine(e.text))
		}
	}
	manSeeAlso(b, c)
	return b.String()
}

// manSynopsis returns how a command is called.
func manSynopsis(c *cobra.Command) string {
	if c.HasAvailableSubCommands() && !c.DisableFlagsInUseLine {
		return c.CommandPath() + " COMMAND"
	}
	return c.UseLine()
}

func manSubcommands(b *strings.Builder, c *cobra.Command) {
	heading := ".SH COMMANDS\n"
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			fmt.Fprintf(b, "%s.TP\n.B %s\n%s\n", heading, roff(sub.Name()), roffLine(sub.Short))
			heading = ""
		}
	}
}

// manOptions writes the options in their groups.
func manOptions(b *strings.Builder, c *cobra.Command) {
	heading := ".SH OPTIONS\n"
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		fmt.Fprint(b, heading)
		heading = ""
		if g := f.Annotations[flagGroup]; len(g) > 0 {
			fmt.Fprintf(b, ".SS %s\n", roff(g[0]))
		}
		value, text := pflag.UnquoteUsage(f)
		text = strings.TrimPrefix(text, value+": ")
		names := `\fB` + roff("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			names = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + names
		}
		switch {
		case value != "" && f.NoOptDefVal != "":
			names += `[=\fI` + roff(value) + `\fR]`
		case value != "":
			names += ` \fI` + roff(value) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", names, roffLine(text))
	})
}

// manText writes paragraphs; lines that begin with a blank stay as they are.
func manText(b *strings.Builder, text string) {
	const prose, verbatim = 1, 2
	mode := 0
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		line = strings.TrimRight(line, " \n")
		switch is := strings.HasPrefix(line, " "); {
		case line == "":
			if mode == verbatim {
				fmt.Fprint(b, ".fi\n")
			}
			fmt.Fprint(b, ".PP\n")
			mode = 0
			continue
		case is && mode != verbatim:
			fmt.Fprint(b, ".nf\n")
			mode = verbatim
		case !is && mode == verbatim:
			fmt.Fprint(b, ".fi\n")
			mode = prose
		case !is:
			mode = prose
		}
		fmt.Fprintln(b, roffLine(line))
	}
	if mode == verbatim {
		fmt.Fprint(b, ".fi\n")
	}
}

// manTopics are the topics of leat help that commands refer to.
var manTopics = map[string][]string{
	"leat apply": {"environment", "expressions", "grid", "outputs", "workers"},
	"leat zonal": {"environment", "expressions", "grid", "workers"},
}

// manSeeAlso names the pages of the command above and of those below.
func manSeeAlso(b *strings.Builder, c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, manName(c.Parent()))
	}
	for _, sub := range manCommands(c)[1:] {
		if sub.Parent() == c {
			names = append(names, manName(sub))
		}
	}
	for _, topic := range manTopics[c.CommandPath()] {
		names = append(names, "leat-"+topic)
	}
	slices.Sort(names)
	for i, name := range names {
		if i == 0 {
			fmt.Fprint(b, ".SH SEE ALSO\n")
		}
		comma := ","
		if i+1 == len(names) {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", roff(name), comma)
	}
}

// roff escapes a text within a line.
func roff(text string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, `"`, `\(dq`).Replace(text)
}

// roffLine escapes a line, which must not be taken for a request.
func roffLine(text string) string {
	if strings.HasPrefix(text, ".") {
		return `\&` + roff(text)
	}
	return roff(text)
}
