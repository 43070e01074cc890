package apply

import (
	"strings"

	"leat/apply/internal/jobspec"
)

// JobError is returned for an error in the job itself: it can't be done with any rasters, or not
// with these. Other errors concern files, memory, or events during a run.
type JobError = jobspec.JobError

// FieldError is an error about one field of a job. Field is the field's path in [Job] without the
// names of inputs and outputs, such as "Controls.MemoryBytes", "Input.Resample" or "Output.Nodata".
type FieldError = jobspec.FieldError

// jobErrors makes each of several errors a JobError; nil for none.
func jobErrors(errs ...error) error { return jobspec.JobErrors(errs...) }

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
