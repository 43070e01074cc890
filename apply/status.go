package apply

import (
	"sync/atomic"

	"leat/apply/internal/spool"
	"leat/internal/worker/coordinator"
	"leat/worker"
)

// Status is the status of a run at one moment.
type Status struct {
	Plan *Plan // must not be changed
	// Stage is "preparing", "rasterising", "resuming", "blocks", "staging" (all readers wait for
	// objects), "laying out", "uploading" or "done".
	Stage   string
	Done    int   // finished blocks of Plan.Blocks, those of an earlier run included
	Resumed int   // blocks of an earlier run
	Pixels  int64 // of the grid, in the finished blocks
	Blocks  []BlockState
	// ReadAhead blocks are being read, or have been read and wait for a worker.
	ReadAhead int
	Outputs   []OutputState // in the order of their names
	// Local are the workers of this process. Remote is the status of worker processes, nil if there
	// are none.
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
)

// OutputState is the state of an unfinished output.
type OutputState struct {
	Name, Path string
	Bytes      int64 // spooled
}

// WorkerState is the state of a worker of this process.
type WorkerState struct {
	Block int // that it computes; -1 if none
	Done  int // finished blocks
}

// watched holds the data of Status. It costs the run an atomic store at each step of a block.
type watched struct {
	stage  atomic.Pointer[string]
	blocks []atomic.Uint32
	local  []localWorker
	remote atomic.Pointer[coordinator.Coordinator]
	spools atomic.Pointer[[]*spool.File]
}

type localWorker struct{ block, done atomic.Int64 }

// watch prepares Status for a planned run.
func (r *run) watch() {
	w := &r.watched
	w.blocks = make([]atomic.Uint32, r.plan.Blocks.Count())
	if r.job.Concurrency.On == nil {
		w.local = make([]localWorker, r.plan.Workers)
		for i := range w.local {
			w.local[i].block.Store(-1)
		}
	}
	r.at("preparing")
}

// watchSpools records the open spools, and the blocks in them, which an earlier run computed.
func (r *run) watchSpools() {
	w := &r.watched
	for n := range w.blocks {
		if r.isDone(n) {
			w.blocks[n].Store(uint32(BlockDone))
		}
	}
	var spools []*spool.File
	for _, w := range r.writers {
		spools = append(spools, w.File)
	}
	w.spools.Store(&spools)
}

// at sets the stage of the run.
func (r *run) at(stage string) { r.watched.stage.Store(&stage) }

// mark sets the state of a block.
func (r *run) mark(n int, s BlockState) { r.watched.blocks[n].Store(uint32(s)) }

// status returns the status of the run. It takes short locks only.
func (r *run) status() Status {
	w := &r.watched
	s := Status{Plan: r.plan, Stage: *w.stage.Load(), Blocks: make([]BlockState, len(w.blocks))}
	for n := range s.Blocks {
		s.Blocks[n] = BlockState(w.blocks[n].Load())
	}
	r.mu.Lock()
	s.Done, s.Resumed, s.Pixels = r.done, r.resumed, r.pixels
	r.mu.Unlock()
	for i := range w.local {
		s.Local = append(s.Local, WorkerState{int(w.local[i].block.Load()), int(w.local[i].done.Load())})
	}
	if c := w.remote.Load(); c != nil {
		status := c.Status()
		s.Remote = &status
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
	spools := w.spools.Load()
	for i, o := range r.outs {
		os := OutputState{Name: o.Name, Path: o.Spec.Label()}
		if spools != nil {
			os.Bytes = (*spools)[i].Bytes()
		}
		s.Outputs = append(s.Outputs, os)
	}
	return s
}
