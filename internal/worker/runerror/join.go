// Package runerror makes the errors of runs, which coordinator, workers and apply share.
package runerror

import (
	"errors"

	"leat/worker"
)

// StopError reports that stopping workers failed, so that some may still run. It is the error of a
// run whose blocks are all done, otherwise a later error in a [worker.RunError].
type StopError struct{ Err error }

func (e *StopError) Error() string { return e.Err.Error() }
func (e *StopError) Unwrap() error { return e.Err }

// Join adds later errors to a cause, which may be nil. Its error is a [worker.RunError] if there is
// a cause and a later error.
func Join(cause error, after ...error) error {
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
	return &worker.RunError{Cause: cause, After: list}
}

// LeftErrors returns all LeftErrors among what err wraps, later errors of a RunError too.
func LeftErrors(err error) []*worker.LeftError {
	var list []*worker.LeftError
	switch e := err.(type) {
	case *worker.LeftError:
		return []*worker.LeftError{e}
	case *worker.RunError:
		for _, one := range append([]error{e.Cause}, e.After...) {
			list = append(list, LeftErrors(one)...)
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, LeftErrors(one)...)
		}
	case interface{ Unwrap() error }:
		return LeftErrors(e.Unwrap())
	}
	return list
}
