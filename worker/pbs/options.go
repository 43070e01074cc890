package pbs

import (
	"errors"
	"fmt"
	"strings"
)

// takesValue are the options of qsub that are followed by a value, as in its manual page.
const takesValue = "aAcCeJjklmMNopPqrRSuvW"

// refused are the options of qsub that users can't give, with the reason.
var refused = map[byte]string{
	'J': "the number of workers makes the array",
	'N': "jobs are named after the run",
	'o': "what jobs write is kept in the run's folder", 'e': "what jobs write is kept in the run's folder",
	'j': "what jobs write is kept in the run's folder", 'k': "what jobs write is kept in the run's folder",
	'R': "what jobs write is kept in the run's folder",
	'S': "the script is one of /bin/sh; put other shells into the prefix",
	'I': "workers are not interactive", 'X': "workers are not interactive", 'G': "workers are not interactive",
	'z': "the job's identifier must be printed",
	'C': "the script has no directives",
	'h': "a held job never starts its worker",
	'r': "arrays are always rerunnable, single jobs must not be",
}

// checkExtra reads the user's options of qsub as qsub does. insecure: -v is in use already; cpus: the number of CPUs is an option of the kind.
func checkExtra(args []string, insecure, cpus bool) error {
	var wrong []error
	say := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf("pbs: option "+format, a...)) }
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
			say("%q of qsub is refused: it is no option, and qsub would take it for the job's script", a)
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
				say("-v of qsub is refused together with InsecureSecret, which needs it: set variables by lines of Init")
			case c == 'v' && strings.Contains(value, "LEAT_WORKER"):
				say("-v of qsub is refused: the kind sets LEAT_WORKER variables itself")
			case c == 'l' && cpus && (attribute(value, "select") || attribute(value, "ncpus") || attribute(value, "nodes")):
				say("-l %s of qsub is refused: the CPUs of a worker are set by an option of their own", value)
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

// attribute tells whether a value of -W or -l sets the attribute or resource.
func attribute(value, name string) bool {
	for a := range strings.SplitSeq(value, ",") {
		if k, _, _ := strings.Cut(a, "="); strings.EqualFold(strings.Trim(k, " '\""), name) {
			return true
		}
	}
	return false
}
