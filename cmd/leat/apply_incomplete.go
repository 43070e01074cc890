package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"leat/apply/outcome"
	"leat/internal/terminal"
	"leat/internal/units"
)

// incompleteMessage returns what a failed run has left, and what the user can do with it. args is
// the command line that ran.
func incompleteMessage(left *outcome.IncompleteError, args []string) message {
	what := fmt.Sprintf("%d of %d blocks are kept", left.Done, left.Total)
	if left.Done < 0 {
		what = "the blocks of an earlier run are still"
	}
	m := message{text: fmt.Sprintf("%s in %s (%s)", what, strings.Join(left.Paths, ", "), units.FormatSize(left.Bytes))}
	again, shown := resumeCommand(args)
	purpose := "compute the rest"
	if left.Done == left.Total {
		purpose = "finish the outputs"
	}
	switch {
	case !slices.ContainsFunc(args, runsJobs): // leat demo has no --resume
		m.hint = "the next run of the same command replaces them"
	case !shown:
		m.hint = fmt.Sprintf("use the same command with --resume to %s, or leat apply discard to remove them", purpose)
	case !slices.Contains(args, "apply"):
		m.hint = fmt.Sprintf("use --resume to %s, or leat apply discard DIR to remove them:\n  %s", purpose, again)
	default:
		m.hint = fmt.Sprintf("use --resume to %s, or discard in its place to remove them:\n  %s", purpose, again)
	}
	m.text, m.hint = terminal.Text(redact(m.text)), terminal.Text(m.hint)
	return m
}

// resumeCommand is the command line that goes on from what one has left. It is not shown where a
// URL in it has a secret.
func resumeCommand(args []string) (text string, shown bool) {
	at := slices.IndexFunc(args, runsJobs)
	if at < 1 || slices.ContainsFunc(args, func(a string) bool { return redact(a) != a }) {
		return "", false
	}
	again := slices.Clone(args)
	if !slices.Contains(again, "--resume") {
		again = slices.Insert(again, at+1, "--resume")
	}
	return commandLine(again), true
}

// runsJobs reports whether an argument is a command whose runs can be resumed.
func runsJobs(arg string) bool { return arg == "apply" || arg == "zonal" }

// withoutLeftover is why a run failed, without what it has left.
func withoutLeftover(err error) error {
	var left *outcome.IncompleteError
	if errors.As(err, &left) {
		return left.Err
	}
	return err
}

// replacedMessage warns of blocks of an earlier run that this one replaces.
func replacedMessage(r *outcome.ReplacedBlocks) message {
	m := message{text: fmt.Sprintf("%d of %d blocks of an earlier run in %s are replaced when the first block is done",
		r.Blocks, r.Total, strings.Join(r.Paths, ", ")), hint: "--resume would use them"}
	if len(r.Changes) > 0 {
		m.hint = "--resume can't use them: " + strings.Join(r.Changes, "; ")
	}
	return message{terminal.Text(m.text), terminal.Text(m.hint)}
}
