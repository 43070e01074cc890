package apply

import (
	"errors"
	"strings"
)

// JobError is a mistake in the job itself: what it asks for can't be done with any, or with these, rasters. Other
// errors are about files, memory, or what happened during a run.
type JobError struct{ Err error }

func (e *JobError) Error() string { return e.Err.Error() }
func (e *JobError) Unwrap() error { return e.Err }

// mistakes makes each of several errors a JobError; nil for none.
func mistakes(errs ...error) error {
	var list []error
	for _, err := range errs {
		if err != nil {
			list = append(list, &JobError{err})
		}
	}
	return errors.Join(list...)
}

// plain drops the name of the package that an error comes from, which says nothing to people.
func plain(err error) error {
	for _, p := range []string{"geotiff: ", "expr: ", "ndarray: "} {
		if text, ok := strings.CutPrefix(err.Error(), p); ok {
			return plainError{text, err}
		}
	}
	return err
}

type plainError struct {
	text string
	err  error
}

func (e plainError) Error() string { return e.text }
func (e plainError) Unwrap() error { return e.err }
