package main

import (
	"github.com/spf13/cobra"

	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"leat/internal/terminal"
	"leat/internal/units"
	"leat/namespace"
	"leat/shm"
)

func jobsListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:                   "ls [options]",
		DisableFlagsInUseLine: true,
		Short:                 "List namespaces and shared arrays",
		Long: `Ls lists the namespaces that jobs of this user have registered on this machine, one a line: its number,
whether a process of it lives, since when, how many processes, what it claims, and its key. Then the arrays
that processes of this user share: the memory they take, the processes that have them mapped, and where they
are. "dead" is what a killed job left; the next jobs reclaim it, or leat jobs gc.`,
		Example: `  leat jobs ls
  leat jobs ls --json | jq -r 'select(.kind == "array") | .bytes'`,
		Args: noArguments("jobs ls"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listJobs(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line, \"kind\" is \"namespace\" or \"array\"")
	return c
}

// arrayDoc is a shared array in --json.
type arrayDoc struct {
	Kind  string `json:"kind"` // array
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`               // that it takes
	Held  bool   `json:"held"`                // a process has it open
	Maker int    `json:"maker_pid,omitempty"` // of memory without a name
	PIDs  []int  `json:"pids"`                // that have it mapped
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
			if err := writeJSON(w, newJobDoc(j)); err != nil {
				return stdoutError(err)
			}
		}
		for _, a := range arrays {
			if err := writeJSON(w, arrayDoc{"array", a.Name, a.Bytes, a.Held, a.Maker, append([]int{}, a.PIDs...)}); err != nil {
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

// clock formats a time: the hour alone if it is today.
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
