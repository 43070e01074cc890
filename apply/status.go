package apply

import (
	"slices"

	"leat/apply/internal/exec"
	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/worker"
)

// Status is the status of a run at one moment.
type Status struct {
	Plan *outcome.Plan // must not be changed
	// Stage is "preparing", "rasterizing", "resuming", "blocks", "staging" (all readers wait for
	// objects), "laying out", "uploading" or "done".
	Stage   string
	Done    int   // finished blocks of Plan.ComputedBlocks, those of an earlier run included
	Resumed int   // blocks of an earlier run
	Pixels  int64 // of the grid, in the finished blocks
	Blocks  []BlockState
	// ReadAhead blocks are being read, or have been read and wait for a worker.
	ReadAhead int
	Outputs   []OutputState // sorted by name
	// Local holds the workers of this process. Remote is the status of worker processes, nil if
	// there are none.
	Local  []WorkerState
	Remote *worker.Status
}

// BlockState is the state of a block.
type BlockState uint8

const (
	BlockWaiting BlockState = iota
	BlockRead               // it is being read, or was read and waits for a worker
	BlockHeld               // a worker has it; Status.Remote has the details for worker processes
	BlockDone
	BlockSkipped // it is not computed: see outcome.Plan.SkippedBlocks
)

// OutputState is the state of an unfinished output.
type OutputState struct {
	Name, Path string
	Bytes      int64 // spooled
}

// WorkerState is the state of a worker of this process.
type WorkerState struct {
	Block int // being computed; -1 if none
	Done  int // finished blocks
}

// outputStates returns the states of outputs before a run.
func outputStates(outs []*output.Output) []OutputState {
	var list []OutputState
	for _, o := range outs {
		list = append(list, OutputState{Name: o.Name, Path: o.Spec.Label()})
	}
	return list
}

// newStatus returns the public form of a status.
func newStatus(e exec.Status, p *outcome.Plan, outputs []OutputState) Status {
	s := Status{Plan: p, Stage: e.Stage, Done: e.Done, Resumed: e.Resumed, Pixels: e.Pixels,
		Blocks: make([]BlockState, len(e.Blocks)), ReadAhead: e.ReadAhead,
		Outputs: slices.Clone(outputs), Remote: e.Remote}
	for i, b := range e.Blocks {
		s.Blocks[i] = BlockState(b)
	}
	for i, n := range e.Spooled {
		s.Outputs[i].Bytes = n
	}
	for _, w := range e.Local {
		s.Local = append(s.Local, WorkerState(w))
	}
	return s
}
