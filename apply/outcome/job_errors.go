package outcome

// JobError is returned for an error in the job itself: it can't be done with any rasters, or not
// with these: a band is missing, or they lie on several grids. Other errors concern files that are
// missing, unreadable or not rasters, memory, or events during a run. The text is that of Err.
type JobError struct{ Err error }

func (e *JobError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *JobError) Unwrap() error { return e.Err }

// FieldError is an error about one field of a job. The text is that of Err.
type FieldError struct {
	// Field is the path of the field in apply.Job without the names of inputs and outputs, such as
	// "Controls.MemoryBytes", "Input.Resample" or "Output.Nodata".
	Field string
	// Value is a value of the field, as text, with which the job is likely to succeed; "" if none
	// is known, or if the error comes from a worker process.
	Value string
	Err   error // what is wrong
}

func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// UnknownNameError is an error about a name, such as that of an input, that does not exist. The
// text is that of Err.
type UnknownNameError struct {
	Name  string   // the name that was given
	Known []string // the names that exist
	Err   error    // what is wrong
}

func (e *UnknownNameError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnknownNameError) Unwrap() error { return e.Err }

// Note is a sentence for users about a job or its outputs that is not an error.
type Note struct {
	Text string // a clause in lower case, without a full stop
	// Field is the path of a field of the job that changes what the note is about, and Value a
	// value for it, as in [FieldError]; "" if there is none.
	Field, Value string
}
