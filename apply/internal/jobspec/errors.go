package jobspec

import (
	"errors"
	"fmt"
)

// JobError is returned for an error in the job itself: it can't be done with any rasters, or not
// with these. Other errors concern files, memory, or events during a run.
type JobError struct{ Err error }

func (e *JobError) Error() string { return e.Err.Error() }
func (e *JobError) Unwrap() error { return e.Err }

// JobErrors makes each of several errors a JobError; nil for none.
func JobErrors(errs ...error) error {
	var list []error
	for _, err := range errs {
		if err != nil {
			list = append(list, &JobError{Err: err})
		}
	}
	return errors.Join(list...)
}

// FieldError is an error about one field of a job.
type FieldError struct {
	// Field is the path of the field in apply.Job without the names of inputs and outputs, such as
	// "Controls.MemoryBytes", "Input.Resample" or "Output.Nodata".
	Field string
	// Value is a value of the field with which the job works as far as is known; "" if none is
	// known.
	Value string
	Err   error
}

func (e *FieldError) Error() string { return e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// UnknownNameError is an error about a name that is none of those that there are.
type UnknownNameError struct {
	Name  string
	Known []string // the names that there are
	Err   error
}

func (e *UnknownNameError) Error() string { return e.Err.Error() }
func (e *UnknownNameError) Unwrap() error { return e.Err }

// Errorf returns a FieldError, or a plain error if field is "".
func Errorf(field, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if field == "" {
		return err
	}
	return &FieldError{Field: field, Err: err}
}

// Note is a sentence for users about a job or its outputs.
type Note struct {
	Text string
	// Field and Value are those of FieldError: a field that changes what the note is about; "" if
	// there is none.
	Field, Value string
}

func (n Note) String() string { return n.Text }

// NewNotes returns notes of these texts, without fields.
func NewNotes(texts ...string) []Note {
	var notes []Note
	for _, text := range texts {
		notes = append(notes, Note{Text: text})
	}
	return notes
}

// Errors of inputs and outputs that callers distinguish.
var (
	ErrNotGeoreferenced = errors.New("not georeferenced")
	ErrNoCRS            = errors.New("no coordinate reference system")
	ErrBeingWritten     = errors.New("being written to")
	ErrInUse            = errors.New("being written by another run of leat")
)
