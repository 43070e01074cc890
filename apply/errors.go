package apply

import (
	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
)

// JobError is returned for an error in the job itself: it can't be done with any rasters, or not
// with these. Other errors concern files, memory, or events during a run.
type JobError = jobspec.JobError

// FieldError is an error about one field of a job. Field is the field's path in [Job] without the
// names of inputs and outputs, such as "Controls.MemoryBytes", "Input.Resample" or "Output.Nodata".
type FieldError = jobspec.FieldError

// UnknownNameError is an error about a name, such as that of an input, that is none of those that
// there are.
type UnknownNameError = jobspec.UnknownNameError

// Note is a sentence for users about a job or its outputs, with the field of the job that changes
// what it is about; Field is "" if there is none. Field and Value are as in [FieldError].
type Note = jobspec.Note

// InputChangedError is returned when an input was changed while a run read it.
type InputChangedError = resolve.InputChangedError

// Errors of a job's inputs and outputs.
var (
	ErrNotGeoreferenced = jobspec.ErrNotGeoreferenced // a raster that must be warped has no position
	ErrNoCRS            = jobspec.ErrNoCRS            // a raster that must be warped has no CRS
	ErrBeingWritten     = jobspec.ErrBeingWritten     // an input is incomplete: another process writes it
	ErrInUse            = jobspec.ErrInUse            // another run of leat writes an output
	ErrVectors          = resolve.ErrVectors          // a file of vectors is given as an input
	ErrNotSpool         = spool.ErrNotSpool           // the file of an unfinished output is something else
)

// ResumeError is returned when a run can't resume from the blocks of an earlier one. Path is that
// of the unfinished output, Changes are clauses about the differences between the runs, and Err is
// another reason; one of the two is set.
type ResumeError = plan.ResumeError

// BlockError is returned when a run failed at a block, or in the function's Setup or Close, whether
// in this process or in a worker process. Block and Window are those of the block; Block is -1 in
// Setup and Close. Stage is "reading", "computing", "setup" or "closing". Worker and Host name
// where it was ("" for a reader of this process), Stack is that of a panic, and Err is the cause.
//
// errors.Is and errors.As find what Err wraps. If the error comes from another process, errors.Is
// finds the errors of Function.Errors and a few of the standard library (such as fs.ErrNotExist),
// and errors.As finds a [PanicError], a [FieldError] without its Value, an [InputChangedError], and
// the [worker.Failure] that the worker sent.
type BlockError = exec.BlockError

// PanicError is returned when the job's function or one of its hooks panicked. Of is "Setup",
// "Close", "Merge" or "BeforeClose", and "" for the function of blocks; Value is the panic's, a
// string if another process computed the block, and Stack its stack. errors.Is and errors.As look
// into a Value that is an error.
type PanicError = exec.PanicError

// IncompleteError is returned when a run failed, for the reason Err, and kept its finished blocks:
// Done of Total, in the files Paths of Bytes together. Done is -1 if the run failed before they
// were counted. A run of the same job with Job.Resume continues from them, one without it starts
// over, and [Discard] removes them. The text is that of Err.
type IncompleteError = exec.IncompleteError

// UnpublishedError is returned when a run failed, for the reason Err, after its outputs were
// finished and before all of them had their names. Files are the current paths of those, by the
// name of the output: its own path if no file was there, or a similar one next to it. Old files are
// unchanged.
type UnpublishedError = exec.UnpublishedError
