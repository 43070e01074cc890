package jobspec

import "errors"

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
