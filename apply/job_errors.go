package apply

import (
	"leat/apply/internal/jobspec"
	"leat/apply/internal/plan"
)

// JobError is returned for an error in the job itself: it can't be done with any rasters, or not
// with these. Other errors concern files, memory, or events during a run.
type JobError = jobspec.JobError

// FieldError is an error about one field of a job. Field is the field's path in [Job] without the
// names of inputs and outputs, such as "Controls.MemoryBytes", "Input.Resample" or "Output.Nodata".
type FieldError = jobspec.FieldError

// ResumeError is returned when a run can't resume from the blocks of an earlier one. Path is that
// of the unfinished output, Changes are clauses about the differences between the runs, and Err is
// another reason; one of the two is set.
type ResumeError = plan.ResumeError
