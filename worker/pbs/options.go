package pbs

import (
	"errors"
	"fmt"
	"strings"
)

// takesValue lists the options of qsub that take a value, as in its manual page.
const takesValue = "aAcCeJjklmMNopPqrRSuvW"

// refused maps the options of qsub that users can't set to the reason.
var refused = map[byte]string{
	'J': "the array is made from the number of workers",
	'N': "jobs are named after the run",
	'o': "output of jobs is written to the run's folder", 'e': "output of jobs is written to the run's folder",
	'j': "output of jobs is written to the run's folder", 'k': "output of jobs is written to the run's folder",
	'R': "output of jobs is written to the run's folder",
	'S': "the script needs /bin/sh; other shells go into Prefix",
	'I': "workers are not interactive", 'X': "workers are not interactive", 'G': "workers are not interactive",
	'z': "the job's identifier must be printed",
	'C': "the script has no directives",
	'h': "a held job never starts its worker",
	'r': "arrays are always rerunnable, single jobs must not be",
}

// checkExtra parses the user's options as qsub does and returns an error that names all refused
// ones. insecure: -v is used already; cpus: Options.CPUs is set.
func checkExtra(args []string, insecure, cpus bool) error {
	var wrong []error
	say := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf("option "+format, a...)) }
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case strings.ContainsRune(a, 0):
			say("%q of qsub holds a zero byte", a)
			continue
		case a == "--version":
			say("--version of qsub is refused: it submits nothing")
			continue
		case a == "--" || len(a) < 2 || a[0] != '-':
			say("%q of qsub is refused: it is no option, qsub would read it as the job's script", a)
			continue
		}
		for j := 1; j < len(a); j++ {
			c := a[j]
			if why, ok := refused[c]; ok {
				say("-%c of qsub is refused: %s", c, why)
			}
			if strings.IndexByte(takesValue, c) < 0 {
				continue
			}
			value := a[j+1:]
			if value == "" {
				if i++; i == len(args) {
					say("-%c of qsub has no value", c)
					break
				}
				value = args[i]
			}
			switch {
			case c == 'v' && insecure:
				say("-v of qsub is refused: InsecureSecret needs it; lines of Init can set variables")
			case c == 'v' && strings.Contains(value, "LEAT_WORKER"):
				say("-v of qsub is refused: LEAT_WORKER variables are reserved for the launcher")
			case c == 'l' && cpus && (attribute(value, "select") || attribute(value, "ncpus") || attribute(value,
				"nodes")):
				say("-l %s of qsub is refused: Options.CPUs is set", value)
			case c == 'W' && attribute(value, "block"):
				say("-W block of qsub is refused: qsub would not return before the workers end")
			case c == 'W' && attribute(value, "interactive"):
				say("-W interactive of qsub is refused: workers are not interactive")
			}
			break
		}
	}
	return errors.Join(wrong...)
}

// attribute reports whether a value of -W or -l sets the attribute or resource.
func attribute(value, name string) bool {
	for a := range strings.SplitSeq(value, ",") {
		if k, _, _ := strings.Cut(a, "="); strings.EqualFold(strings.Trim(k, " '\""), name) {
			return true
		}
	}
	return false
}
