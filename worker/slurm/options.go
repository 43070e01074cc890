package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// refusal is an option of sbatch that users can't give.
type refusal struct {
	short byte // 0: there is none
	why   string
}

const (
	kept  = "what jobs write is kept in the run's folder"
	empty = "jobs read the script and nothing else"
)

var refused = map[string]refusal{
	"array":       {'a', "the number of workers makes the array"},
	"job-name":    {'J', "jobs are named after the run"},
	"output":      {'o', kept},
	"error":       {'e', kept},
	"open-mode":   {0, kept},
	"input":       {'i', empty},
	"export":      {0, "workers get the whole environment, with what leads them to the run in it"},
	"export-file": {0, "workers get the whole environment, with what leads them to the run in it"},
	"wrap":        {0, "the script is the worker's"},
	"parsable":    {0, "it is given already"},
	"requeue":     {0, "a lost worker's blocks go to others: it must not come back"},
	"wait":        {'W', "sbatch would not return before the workers end"},
	"test-only":   {0, "it starts nothing"},
	"help":        {'h', "it starts nothing"},
	"usage":       {0, "it starts nothing"},
	"version":     {'V', "it starts nothing"},
}

// shortWithValue are the options of one letter that take a value, which may follow without a space.
const shortWithValue = "ABCDFGLMNSbcdlmnpqrtuwxz"

// withoutValue are the options that a value never follows as a word of its own.
var withoutValue = []string{"contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "no-kill", "no-requeue", "overcommit",
	"oversubscribe", "propagate", "quiet", "reboot", "spread-job", "use-min-nodes", "verbose"}

// checkExtra reports the user's options of sbatch that can't be. cpus: the number of CPUs is an option of the kind already.
func checkExtra(args []string, cpus bool) error {
	var errs []error
	say := func(format string, a ...any) { errs = append(errs, fmt.Errorf("slurm: option "+format, a...)) }
	value := false // args[i] may be the value of the option before it
	for _, a := range args {
		switch {
		case strings.ContainsRune(a, 0):
			say("%q of sbatch holds a zero byte", a)
			value = false
		case strings.HasPrefix(a, "--") && len(a) > 2:
			name, _, has := strings.Cut(a[2:], "=")
			value = !has && !slices.Contains(withoutValue, name)
			if full, why := refusedLong(name, cpus); full != "" {
				say("--%s of sbatch is refused: %s", full, why)
			}
		case len(a) > 1 && a[0] == '-' && a != "--":
			c := a[1]
			value = len(a) == 2 && strings.IndexByte(shortWithValue, c) >= 0
			for name, r := range refused {
				if r.short == c {
					say("-%c (--%s) of sbatch is refused: %s", c, name, r.why)
				}
			}
			if c == 'c' && cpus {
				say("-c of sbatch is refused: the CPUs of a worker are set by an option of their own")
			}
			if len(a) > 2 && strings.IndexByte(shortWithValue, c) < 0 {
				say("%s of sbatch is refused: write options without a value one by one", a)
			}
		case !value:
			say("%q of sbatch is refused: it is no option, and sbatch would take it for the job's script", a)
		default:
			value = false
		}
	}
	return errors.Join(errs...)
}

// refusedLong returns the refused option that sbatch would take name for, and the reason: sbatch knows options by their first letters too.
func refusedLong(name string, cpus bool) (full, why string) {
	if cpus && name != "" && strings.HasPrefix("cpus-per-task", name) {
		return "cpus-per-task", "the CPUs of a worker are set by an option of their own"
	}
	for _, n := range slices.Sorted(maps.Keys(refused)) {
		if strings.HasPrefix(n, name) {
			return n, refused[n].why
		}
	}
	return "", ""
}
