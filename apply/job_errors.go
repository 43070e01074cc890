package apply

import (
	"errors"
	"strings"
)

// JobError is returned for an error in the job itself: it can't be done with any rasters, or not
// with these. Other errors concern files, memory, or events during a run.
type JobError struct{ Err error }

func (e *JobError) Error() string { return e.Err.Error() }
func (e *JobError) Unwrap() error { return e.Err }

// jobErrors makes each of several errors a JobError; nil for none.
func jobErrors(errs ...error) error {
	var list []error
	for _, err := range errs {
		if err != nil {
			list = append(list, &JobError{err})
		}
	}
	return errors.Join(list...)
}

// plain drops the package's name at the start of an error, which means nothing to users.
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
