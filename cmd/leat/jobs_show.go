package main

import (
	"github.com/spf13/cobra"

	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/namespace"
)

func jobsShowCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:                   "show NUMBER|KEY [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Describe one namespace",
		Long: `Show describes one namespace, by its number or its job's key: processes, claims, and what its members
share by name.`,
		Example: `  leat jobs show 500000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("give the number or the key of one namespace: leat jobs ls lists them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return showJobs(cmd.OutOrStdout(), args[0], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each namespace with that number or key")
	return c
}

// showJobs describes the namespaces with a number or a key; a job may have several names.
func showJobs(w io.Writer, which string, asJSON bool) error {
	if err := namespace.Usable(); err != nil {
		return err
	}
	jobs, problems := namespace.List()
	number, err := strconv.Atoi(which)
	byNumber := err == nil
	found := 0
	for _, j := range jobs {
		if j.Key != which && !(byNumber && j.Number == number) {
			continue
		}
		found++
		if asJSON {
			if err := writeJSON(w, newJobDoc(j)); err != nil {
				return stdoutError(err)
			}
			continue
		}
		if found > 1 {
			fmt.Fprintln(w)
		}
		if err := jobText(w, j); err != nil {
			return stdoutError(err)
		}
	}
	if found == 0 {
		return errors.Join(append(problems, fmt.Errorf("there is no namespace %q: leat jobs ls lists them", which))...)
	}
	return nil
}

// jobText writes the description of a namespace.
func jobText(w io.Writer, j namespace.Job) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(t, "%06d\n", j.Number)
	line("key", "%s", terminal.Name(j.Key))
	if j.Name != "" {
		line("name", "%s", terminal.Name(j.Name))
	}
	line("state", "%s", liveText(j.Live))
	line("since", "%s", j.Since.Local().Format("2006-01-02 15:04:05"))
	line("registered by", "process %d on %s", j.PID, terminal.Name(j.Host))
	line("command", "%s", terminal.Name(j.Command))
	for _, c := range j.Claims {
		how := "read"
		if c.Exclusive {
			how = "written"
		}
		if c.Remote != "" {
			how += ", from " + terminal.Name(c.Remote)
		}
		line("claims", "%s (%s)", terminal.Name(c.Path), how)
	}
	for _, m := range j.Members {
		what := "rank " + strconv.Itoa(m.Rank)
		if m.Worker > 0 {
			what += ", worker " + strconv.Itoa(m.Worker)
		}
		if m.Leader {
			what += ", leads"
		}
		if !m.Alive {
			what += ", died"
		}
		line("process", "%d (%s)", m.PID, what)
	}
	for _, s := range j.Shared {
		if s.Bytes > 0 {
			line("shares", "%s, %s", terminal.Name(s.Name), units.FormatSize(s.Bytes))
		} else {
			line("shares", "%s", terminal.Name(s.Name))
		}
	}
	return t.Flush()
}
