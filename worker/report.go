package worker

import (
	"errors"
	"fmt"
	"strings"
)

// Failure is what a worker reported: its function failed at a block, or the worker itself could not go on, or not close. It ends the run at once.
type Failure struct {
	Kind, Worker, Host string
	// Block is the number of the block; -1: of none, the worker could not begin, or not close.
	Block   int
	Message string
	// Stack is where it happened, in the words of the language of the function; "" when that is not known. Error leaves it out.
	Stack string
	// Code tells errors apart where the function's side has given one: see Coder.
	Code string
}

// Coder is an error with a word by which the run knows it again: the worker sends it with a Failure.
type Coder interface{ Code() string }

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

// StackError is an error with the stack of the place where it happened.
type StackError struct {
	Err   error
	Trace []byte
}

func (e *StackError) Error() string { return e.Err.Error() }
func (e *StackError) Unwrap() error { return e.Err }

// Stack returns the stack as text.
func (e *StackError) Stack() []byte { return e.Trace }

// StopError tells of workers that may be left: of all that went wrong when all blocks are done, and else among what came after the cause.
type StopError struct{ Err error }

func (e *StopError) Error() string { return e.Err.Error() }
func (e *StopError) Unwrap() error { return e.Err }

// LostError tells that workers were lost which the run could not do without.
type LostError struct {
	// Block is the number of the block that was given out too often; -1: all workers are gone.
	Block int
	// Reason is what happened, a sentence.
	Reason string
	// Exits are what the kind knows of the ends of these workers, the latest last; at most 8.
	Exits []Exit
}

func (e *LostError) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason)
	for _, x := range e.Exits {
		b.WriteString("\n")
		b.WriteString(x.String())
	}
	return b.String()
}

// String tells of the worker in a line, and the end of its log in lines of their own.
func (x Exit) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s", x.Name)
	if x.Job != "" {
		fmt.Fprintf(&b, " (%s)", x.Job)
	}
	if x.Err != nil {
		fmt.Fprintf(&b, ": %s", x.Err)
	} else {
		b.WriteString(": it has ended by itself")
	}
	if x.Log != "" {
		b.WriteString("; the end of its log:\n  ")
		b.WriteString(strings.ReplaceAll(shown(x.Log), "\n", "\n  "))
	}
	return b.String()
}

// RunError is the cause of a run's end, and what came of it.
type RunError struct {
	Cause error
	// After are errors that came later, most likely since the run was ending; errors.Is and errors.As don't look at them.
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

// afterwards adds what came after a cause; cause may be nil.
func afterwards(cause error, after ...error) error {
	var list []error
	for _, err := range after {
		if err != nil {
			list = append(list, err)
		}
	}
	switch {
	case cause == nil:
		return errors.Join(list...)
	case len(list) == 0:
		return cause
	}
	return &RunError{Cause: cause, After: list}
}
