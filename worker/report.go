package worker

import (
	"fmt"
	"strings"

	"leat/internal/worker/protocol"
)

// Failure is an error that a worker reported: its function failed on a block, or the worker could
// not continue or close. It ends the run at once.
type Failure struct {
	Kind, Worker, Host string
	// Block is the number of the block; -1: none, the worker could not begin or close.
	Block   int
	Message string
	// Stack is the stack trace in the format of the function's language; "" if unknown. Error omits
	// it.
	Stack string
	// Code distinguishes errors if the function provides one.
	Code string
}

func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s", f.Worker)
	if f.Kind != "" && !strings.HasPrefix(f.Worker, f.Kind+"-") {
		fmt.Fprintf(&b, " (%s)", f.Kind)
	}
	if f.Host != "" {
		fmt.Fprintf(&b, " on %s", f.Host)
	}
	if f.Block >= 0 {
		fmt.Fprintf(&b, ", block %d", f.Block)
	}
	fmt.Fprintf(&b, ": %s", f.Message)
	return b.String()
}

// LeftError reports jobs, or other objects of a batch system, that may remain.
type LeftError struct {
	What string // "job 17", "job definition leat-a1:3"
	// Commands are shell lines that find and end it.
	Commands []string
	Err      error // why it may remain
}

func (e *LeftError) Error() string { return e.What + " may be left: " + e.Err.Error() }
func (e *LeftError) Unwrap() error { return e.Err }

// BatchError is an error of a batch system, or of a launcher about the system.
type BatchError struct {
	Kind string // as returned by Launcher.Name
	// Code is the system's own word for the cause ("TIMEOUT", "BadConstraints"), the path of a
	// field of the launcher's Options ("Options.Queue"), "program" if one is missing, or "server"
	// if the system does not answer.
	Code string
	Err  error
}

func (e *BatchError) Error() string { return e.Err.Error() }
func (e *BatchError) Unwrap() error { return e.Err }

// LostError reports that a run lost workers that it needs.
type LostError struct {
	// Block is the number of the block that was leased too often; -1: all workers are gone, or
	// Worker is set.
	Block int
	// Worker is the name of the worker whose value the run can't get: it was lost, or left without
	// it, after results of its blocks were accepted; "" for other reasons.
	Worker string
	// Reason describes what happened.
	Reason string
	// Exits are the known exits of these workers, the latest last; at most 8.
	Exits []Exit
}

func (e *LostError) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason)
	for _, x := range e.Exits {
		b.WriteString("\n")
		b.WriteString(x.text())
	}
	return b.String()
}

// text describes the exit in one line, followed by the end of the log on indented lines.
func (x Exit) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s", x.Name)
	if x.Job != "" {
		fmt.Fprintf(&b, " (%s)", x.Job)
	}
	if x.Err != nil {
		fmt.Fprintf(&b, ": %s", protocol.Sanitize(x.Err.Error())) // it may quote output of a batch system
	} else {
		b.WriteString(": ended without error")
	}
	if x.Log != "" {
		b.WriteString("; the end of its log:\n  ")
		b.WriteString(strings.ReplaceAll(protocol.Sanitize(x.Log), "\n", "\n  "))
	}
	return b.String()
}

// RunError is the cause of a run's end together with later errors.
type RunError struct {
	Cause error
	// After holds errors that came later, most likely as consequences. errors.Is and errors.As
	// ignore them.
	After []error
}

func (e *RunError) Error() string {
	var b strings.Builder
	b.WriteString(e.Cause.Error())
	for _, err := range e.After {
		b.WriteString("\nafter that: ")
		b.WriteString(err.Error())
	}
	return b.String()
}

func (e *RunError) Unwrap() error { return e.Cause }
