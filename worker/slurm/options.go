package slurm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// refusal describes an option of sbatch that users can't set.
type refusal struct {
	short byte // 0: none
	why   string
}

const (
	kept  = "output of jobs is written to the run's folder"
	empty = "jobs have no other input than the script"
)

var refused = map[string]refusal{
	"array":       {'a', "the array is made from the number of workers"},
	"job-name":    {'J', "jobs are named after the run"},
	"output":      {'o', kept},
	"error":       {'e', kept},
	"open-mode":   {0, kept},
	"input":       {'i', empty},
	"export":      {0, "workers need the whole environment"},
	"export-file": {0, "workers need the whole environment"},
	"wrap":        {0, "the script starts the worker"},
	"parsable":    {0, "it is set already"},
	"requeue":     {0, "a lost worker's blocks go to others: its job must not restart"},
	"wait":        {'W', "sbatch would not return before the workers end"},
	"test-only":   {0, "it starts nothing"},
	"help":        {'h', "it starts nothing"},
	"usage":       {0, "it starts nothing"},
	"version":     {'V', "it starts nothing"},
}

// shortWithValue lists the one-letter options that take a value, which may follow without a space.
const shortWithValue = "ABCDFGLMNSbcdlmnpqrtuwxz"

// withoutValue lists the long options that never take the next word as their value.
var withoutValue = []string{"contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "no-kill", "no-requeue",
	"overcommit",
	"oversubscribe", "propagate", "quiet", "reboot", "spread-job", "use-min-nodes", "verbose"}

// withValue lists the long options that take a value, after "=" or as the next word.
var withValue = []string{"account", "acctg-freq", "batch", "bb", "bbf", "begin", "chdir", "cluster-constraint",
	"clusters", "comment", "constraint",
	"container", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot",
	"dependency", "distribution",
	"exclude", "extra-node-info", "gid", "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket",
	"gpus-per-task", "gres", "gres-flags", "hint",
	"kill-on-invalid-dep", "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu",
	"mem-per-gpu", "mincpus", "network",
	"nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
	"ntasks-per-socket", "partition", "power", "prefer",
	"priority", "profile", "qos", "reservation", "signal", "sockets-per-node", "switches", "thread-spec",
	"threads-per-core", "time", "time-min", "tmp",
	"uid", "wait-all-nodes", "wckey"}

// needsValue reports whether the next word is the value of a long option, which may be abbreviated.
func needsValue(name string) bool {
	begins := func(list []string) bool {
		return slices.ContainsFunc(list, func(n string) bool { return strings.HasPrefix(n, name) })
	}
	return slices.Contains(withValue, name) || begins(withValue) && !begins(withoutValue)
}

// checkExtra returns an error that names all refused options of sbatch. cpus: Options.CPUs is set.
func checkExtra(args []string, cpus bool) error {
	var errs []error
	say := func(format string, a ...any) { errs = append(errs, fmt.Errorf("option "+format, a...)) }
	value := false // args[i] may be the value of the option before it
	for i, a := range args {
		// If the value is missing, sbatch takes the next option, which is ours, for it.
		last, follows := i == len(args)-1, ""
		if !last {
			follows = args[i+1]
		}
		switch {
		case strings.ContainsRune(a, 0):
			say("%q of sbatch holds a zero byte", a)
			value = false
		case strings.HasPrefix(a, "--") && len(a) > 2:
			name, _, has := strings.Cut(a[2:], "=")
			value = !has && !slices.Contains(withoutValue, name)
			if !has && needsValue(name) && (last || strings.HasPrefix(follows, "-")) {
				say("--%s of sbatch has no value", name)
			}
			if full, why := refusedLong(name, cpus); full != "" {
				say("--%s of sbatch is refused: %s", full, why)
			}
		case len(a) > 1 && a[0] == '-' && a != "--":
			c := a[1]
			value = len(a) == 2 && strings.IndexByte(shortWithValue, c) >= 0
			if value && (last || strings.HasPrefix(follows, "-")) {
				say("-%c of sbatch has no value", c)
			}
			for name, r := range refused {
				if r.short == c {
					say("-%c (--%s) of sbatch is refused: %s", c, name, r.why)
				}
			}
			if c == 'c' && cpus {
				say("-c of sbatch is refused: Options.CPUs is set")
			}
			if len(a) > 2 && strings.IndexByte(shortWithValue, c) < 0 {
				say("%s of sbatch is refused: write options without a value one by one", a)
			}
		case !value:
			say("%q of sbatch is refused: it is no option, sbatch would read it as the job's script", a)
		default:
			value = false
		}
	}
	return errors.Join(errs...)
}

// refusedLong returns the refused option that sbatch takes name for, and the reason: sbatch accepts
// abbreviations.
func refusedLong(name string, cpus bool) (full, why string) {
	if cpus && name != "" && strings.HasPrefix("cpus-per-task", name) {
		return "cpus-per-task", "Options.CPUs is set"
	}
	for _, n := range slices.Sorted(maps.Keys(refused)) {
		if strings.HasPrefix(n, name) {
			return n, refused[n].why
		}
	}
	return "", ""
}
