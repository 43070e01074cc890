// Package runerror makes the errors of runs, which coordinator, workers and apply share.
package runerror

import (
	"errors"

	"leat/worker"
)

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
