package outcome

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leat/block"
)

// BlockError is returned when a run failed at a block, or in the function's Setup or Close, whether
// in this process or in a worker process.
//
// errors.Is and errors.As find what Err wraps. If the error comes from another process, errors.Is
// finds the errors of the function's list Errors and a few of the standard library (such as
// fs.ErrNotExist), and errors.As finds a [PanicError], a [FieldError] without its Value, an
// [InputChangedError], and the worker.Failure that the worker sent.
type BlockError struct {
	Block  int          // number of the block in the plan, from 0; -1 in Setup and Close
	Window block.Window // the block's pixels in the output's grid; empty in Setup and Close
	Stage  string       // what failed: "reading", "computing", "setup" or "closing"
	Worker string       // name of the worker; "" for a reader of this process
	Host   string       // name of the machine; "" if it is unknown
	Stack  []byte       // stack of a panic as text; nil if there was none
	Err    error        // the cause
	// Text is the text of the error if the other fields would repeat what Err says, or if the error
	// comes from another process; "" otherwise.
	Text string
}

func (e *BlockError) Error() string {
	if e.Text != "" {
		return e.Text
	}
	switch e.Stage {
	case "setup":
		return fmt.Sprintf("setting up %s: %v", e.Worker, e.Err)
	case "closing":
		return fmt.Sprintf("closing %s: %v", e.Worker, e.Err)
	}
	return fmt.Sprintf("block %d (%v): %v", e.Block, e.Window, e.Err)
}

// Unwrap returns Err.
func (e *BlockError) Unwrap() error { return e.Err }

// PanicError is returned when the job's function or one of its hooks panicked or ended its
// goroutine.
type PanicError struct {
	// Of is "Setup", "Close", "Merge", "MergeWorkers", "WorkerValues" or "BeforeClose"; "" for the
	// function of blocks.
	Of    string
	Value any    // value of the panic; its text if it happened in another process
	Stack []byte // stack of the panic as text; nil if the goroutine was ended
}

func (e *PanicError) Error() string {
	of := e.Of
	if of == "" {
		of = "the function"
	}
	return fmt.Sprintf("%s panicked: %v", of, e.Value)
}

// Unwrap returns Value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// IncompleteError is returned when a run failed and kept its finished blocks. A run of the same job
// with Job.Resume continues from them, one without it starts over, and apply.Discard removes them.
// The text is that of Err.
type IncompleteError struct {
	Err   error    // why the run failed
	Paths []string // paths of the unfinished outputs
	Bytes int64    // size of these files together
	// Done of Total blocks are finished; Done is -1 if the run failed before they were counted.
	Done, Total int
}

func (e *IncompleteError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *IncompleteError) Unwrap() error { return e.Err }

// UnpublishedError is returned when a run failed after its outputs were finished and before all of
// them had their names. Files that were there before are unchanged.
type UnpublishedError struct {
	Err error // why the run failed
	// Files are the current paths of the finished files, by the name of the output: its own path if
	// no file was there, or a similar one next to it.
	Files map[string]string
}

func (e *UnpublishedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	for _, name := range slices.Sorted(maps.Keys(e.Files)) {
		fmt.Fprintf(&b, "; the finished file of output %s is kept as %s", name, e.Files[name])
	}
	return b.String()
}

// Unwrap returns Err.
func (e *UnpublishedError) Unwrap() error { return e.Err }

// ResumeError is returned when a run can't resume from the blocks of an earlier one. Either Changes
// or Err is set.
type ResumeError struct {
	Path    string   // path of the unfinished output
	Changes []string // clauses, each about a difference between the runs
	Err     error    // another reason, such as ErrNotSpool
}

func (e *ResumeError) Error() string {
	reason := strings.Join(e.Changes, "; ")
	if e.Err != nil {
		reason = e.Err.Error() + reason
	}
	return e.Path + " can't be continued: " + reason
}

// Unwrap returns Err.
func (e *ResumeError) Unwrap() error { return e.Err }

// InputChangedError is returned when an input was changed while a run read it: the blocks come from
// more than one version of it, and the run can't be resumed.
type InputChangedError struct {
	Change string // the file and what happened to it: "a.tif was written to"
	During string // what the run did with the file: "read" or "rasterized"
	// Overwritten is true if the file was written to, and false if another one replaced it.
	Overwritten bool
}

func (e *InputChangedError) Error() string {
	return fmt.Sprintf("%s while it was %s, so that its pixels may be of several versions", e.Change, e.During)
}
