package exec

import (
	"log/slog"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/timing"
	"leat/worker"
)

// Options are a planned job and what its run uses.
type Options struct {
	Job  *resolve.Job
	Plan *plan.Plan
	// Function is the job's function; with expressions only its hooks are used.
	Function Function
	// Merge receives emitted values in the order of blocks; it may be nil.
	Merge func(block int, value any) error
	// MergeWorkers receives the values of workers in the order of their numbers, after the last
	// block and before outputs are laid out; it may be nil.
	MergeWorkers func(worker int, value any) error
	Store        output.Store
	Tracker      *Tracker
	Timings      *timing.Recorder
	Log          *slog.Logger
	// Abort ends the run's context, which is also that of the sources. The first cause is the run's
	// error.
	Abort func(cause error)
}

// Result describes a finished run.
type Result struct {
	Outputs []*outcome.OutputResult
	Counts  []Counts // of the outputs' expressions; nil for a function
	Blocks  int
	Resumed int // blocks of an earlier run
	Pixels  int64
	Notes   []outcome.Note // in addition to those of the plan
	Workers *worker.Status // nil if there were no worker processes
}
