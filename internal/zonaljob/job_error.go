package zonaljob

import (
	"fmt"

	"leat/apply/outcome"
)

// jobErrorf returns an error of the job: it can't be done with these zones.
func jobErrorf(format string, args ...any) error {
	return &outcome.JobError{Err: fmt.Errorf(format, args...)}
}
