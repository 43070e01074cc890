package apply

import (
	"sync/atomic"

	"leat/apply/internal/spool"
	"leat/internal/worker/coordinator"
	"leat/worker"
)

// State is the state of a run at one moment.
type State struct {
	Plan   *Plan
	Stage  string // "rasterising", "blocks", "laying out" or "uploading"
	Done   int    // finished blocks, those of an earlier run included
	Pixels int64  // of the grid, in these blocks
	Blocks []BlockState
	// ReadAhead blocks are being read, or have been read and wait for a worker.
	ReadAhead int
	Outputs   []OutputState // in the order of their names
	// Working are the workers of this process. Outside is the status of worker processes, nil if
	// there are none.
	Working []WorkingState
	Outside *worker.Status
}

// BlockState is the state of a block.
type BlockState uint8

const (
	BlockWaiting BlockState = iota
	BlockRead               // it is being read, or was read and waits for a worker
	BlockHeld               // a worker has it; State.Outside has the details for worker processes
	BlockDone
)

// OutputState is the state of an unfinished output.
type OutputState struct {
	Name, Path string
	Bytes      int64 // spooled
}

// WorkingState is the state of a worker of this process.
type WorkingState struct {
	Block int // that it computes; -1 if none
	Done  int // finished blocks
}

// watched holds the data of State. It costs the run an atomic store at each step of a block.
type watched struct {
	stage   atomic.Pointer[string]
	blocks  []atomic.Uint32
	working []working
	remote  atomic.Pointer[coordinator.Coordinator]
	spools  []*spool.File
}

type working struct{ block, done atomic.Int64 }

// watch prepares State, and calls the job's Watch.
func (r *run) watch() {
	w := &r.watched
	w.blocks = make([]atomic.Uint32, r.plan.Blocks.Count())
	for n := range w.blocks {
		if r.isDone(n) {
			w.blocks[n].Store(uint32(BlockDone))
		}
	}
	if r.job.Concurrency.On == nil {
		w.working = make([]working, r.plan.Workers)
		for i := range w.working {
			w.working[i].block.Store(-1)
		}
	}
	for _, o := range r.outs {
		w.spools = append(w.spools, o.file)
	}
	r.at("blocks")
	if r.job.Watch != nil {
		r.job.Watch(r.state)
	}
}

// at sets the stage of the run.
func (r *run) at(stage string) { r.watched.stage.Store(&stage) }

// mark sets the state of a block.
func (r *run) mark(n int, s BlockState) { r.watched.blocks[n].Store(uint32(s)) }

// state returns the current state of the run. It takes short locks only.
func (r *run) state() State {
	w := &r.watched
	s := State{Plan: r.plan, Stage: *w.stage.Load(), Blocks: make([]BlockState, len(w.blocks))}
	for n := range s.Blocks {
		s.Blocks[n] = BlockState(w.blocks[n].Load())
	}
	r.mu.Lock()
	s.Done, s.Pixels = r.done, r.pixels
	r.mu.Unlock()
	for i := range w.working {
		s.Working = append(s.Working, WorkingState{int(w.working[i].block.Load()), int(w.working[i].done.Load())})
	}
	if c := w.remote.Load(); c != nil {
		status := c.Status()
		s.Outside = &status
		for _, one := range status.Workers {
			for _, n := range one.Held {
				if s.Blocks[n] != BlockDone {
					s.Blocks[n] = BlockHeld
				}
			}
		}
	}
	for _, b := range s.Blocks {
		if b == BlockRead {
			s.ReadAhead++
		}
	}
	for i, o := range r.outs {
		os := OutputState{Name: o.name, Path: o.spec.label(), Bytes: w.spools[i].Bytes()}
		s.Outputs = append(s.Outputs, os)
	}
	return s
}
