package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/namespace"
	"leat/shm"
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
				return usagef("there is no command %q of jobs; there are ls, show and gc", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var asJSON bool
	ls := &cobra.Command{
		Use:                   "ls [options]",
		DisableFlagsInUseLine: true,
		Short:                 "List namespaces and shared arrays",
		Long: `Ls lists the namespaces that jobs of this user have registered on this machine, one a line: its number,
whether a process of it lives, since when, how many processes, what it claims, and its key. Then the arrays
that processes of this user share: the memory they take, the processes that have them mapped, and where they
are. "dead" is what a killed job left; the next jobs reclaim it, or leat jobs gc.`,
		Example: `  leat jobs ls
  leat jobs ls --json | jq -r 'select(.kind == "array") | .bytes'`,
		Args: noArguments("ls"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listJobs(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON)
		},
	}
	ls.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line, \"kind\" is \"namespace\" or \"array\"")
	show := &cobra.Command{
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
	show.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each namespace with that number or key")
	gc := &cobra.Command{
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
	gc.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each file that was removed")
	c.AddCommand(ls, show, gc)
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

// jobDoc and arrayDoc are lines of --json.
type jobDoc struct {
	Kind string `json:"kind"`
	namespace.Job
}

type arrayDoc struct {
	Kind  string `json:"kind"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"` // that it takes
	Held  bool   `json:"held"`
	Maker int    `json:"maker,omitempty"` // of memory without a name
	PIDs  []int  `json:"pids"`            // that have it mapped
}

// listJobs lists everything. What can't be read becomes a warning.
func listJobs(w, people io.Writer, asJSON bool) error {
	if err := namespace.Usable(); err != nil {
		return err
	}
	jobs, problems := namespace.List()
	arrays, err := shm.List(nil)
	if err != nil {
		problems = append(problems, err)
	}
	for _, err := range problems {
		printWarning(people, fmt.Errorf("skipped: %w", err))
	}
	if asJSON {
		for _, j := range jobs {
			if err := writeJSON(w, jobDoc{"namespace", j}); err != nil {
				return stdoutError(err)
			}
		}
		for _, a := range arrays {
			if err := writeJSON(w, arrayDoc{"array", a.Name, a.Bytes, a.Held, a.Maker, a.PIDs}); err != nil {
				return stdoutError(err)
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(jobs) == 0 {
		fmt.Fprintln(t, "no namespaces")
	} else {
		fmt.Fprintln(t, "NUMBER\tSTATE\tSINCE\tPROCESSES\tCLAIMS\tKEY")
		for _, j := range jobs {
			alive := 0
			for _, m := range j.Members {
				if m.Alive {
					alive++
				}
			}
			key := j.Key
			if j.Name != "" {
				key += "/" + j.Name
			}
			fmt.Fprintf(t, "%06d\t%s\t%s\t%d\t%s\t%s\n", j.Number, liveText(j.Live), clock(j.Since), alive,
				claimsText(j.Claims), terminal.Name(key))
		}
	}
	fmt.Fprintln(t)
	if len(arrays) == 0 {
		fmt.Fprintln(t, "no shared arrays")
	} else {
		fmt.Fprintln(t, "STATE\tBYTES\tMAPPED BY\tARRAY")
		for _, a := range arrays {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", liveText(a.Held), units.FormatSize(a.Bytes), pidsText(a.PIDs),
				terminal.Name(a.Name))
		}
	}
	return stdoutError(t.Flush())
}

func liveText(live bool) string {
	if live {
		return "live"
	}
	return "dead"
}

// clock is a time as people say it today, or on another day.
func clock(t time.Time) string {
	t = t.Local()
	if now := time.Now(); t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

func claimsText(list []namespace.Claim) string {
	switch len(list) {
	case 0:
		return "-"
	case 1:
		return terminal.Name(list[0].Path)
	}
	return fmt.Sprintf("%s and %d more", terminal.Name(list[0].Path), len(list)-1)
}

func pidsText(pids []int) string {
	if len(pids) == 0 {
		return "-"
	}
	var list []string
	for i, pid := range pids {
		if i == 8 {
			list = append(list, fmt.Sprintf("and %d more", len(pids)-i))
			break
		}
		list = append(list, strconv.Itoa(pid))
	}
	return strings.Join(list, " ")
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
			if err := writeJSON(w, jobDoc{"namespace", j}); err != nil {
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
			werr = writeJSON(w, struct {
				Removed string `json:"removed"`
			}{path})
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
