package exec

import (
	"sync"
	"sync/atomic"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/worker/coordinator"
	"leat/worker"
)

// Tracker holds the status of a run. It costs the run an atomic store at each step of a block.
type Tracker struct {
	stage  atomic.Pointer[string]
	blocks []atomic.Uint32
	local  []localState
	remote atomic.Pointer[coordinator.Coordinator]
	spools atomic.Pointer[[]*spool.File]

	mu            sync.Mutex
	done, resumed int
	pixels        int64
}

type localState struct{ block, done atomic.Int64 }

// NewTracker returns the tracker of a planned run. The workers of a run are local unless they are
// processes.
func NewTracker(p *plan.Plan) *Tracker {
	t := &Tracker{blocks: make([]atomic.Uint32, p.Blocks.Count())}
	if p.Kind == "" {
		t.local = make([]localState, p.Workers)
		for i := range t.local {
			t.local[i].block.Store(-1)
		}
	}
	for n, skipped := range p.Skipped {
		if skipped {
			t.mark(n, BlockSkipped)
		}
	}
	t.at("preparing")
	return t
}

// Status is the status of a run at one moment: see apply.Status.
type Status struct {
	Stage         string
	Done, Resumed int
	Pixels        int64
	Blocks        []BlockState
	ReadAhead     int
	Spooled       []int64 // bytes of each output; nil before the spools are open
	Local         []WorkerState
	Remote        *worker.Status
}

// BlockState is the state of a block: see apply.BlockState.
type BlockState uint8

const (
	BlockWaiting BlockState = iota
	BlockRead
	BlockHeld
	BlockDone
	BlockSkipped
)

// WorkerState is the state of a worker of this process: see apply.WorkerState.
type WorkerState struct{ Block, Done int }

// at sets the stage of the run.
func (t *Tracker) at(stage string) { t.stage.Store(&stage) }

// End sets the last stage of the run.
func (t *Tracker) End() { t.at("done") }

// mark sets the state of a block.
func (t *Tracker) mark(n int, s BlockState) { t.blocks[n].Store(uint32(s)) }

// finished counts a block that was computed.
func (t *Tracker) finished(b block.Block) {
	t.mark(b.Number, BlockDone)
	t.mu.Lock()
	t.done++
	t.pixels += b.Window.Pixels()
	t.mu.Unlock()
}

// resume counts the blocks of an earlier run.
func (t *Tracker) resume(blocks int, pixels int64) {
	t.mu.Lock()
	t.done, t.resumed, t.pixels = blocks, blocks, pixels
	t.mu.Unlock()
}

// progress returns how many blocks and pixels are done, and how many blocks are of an earlier run.
func (t *Tracker) progress() (done, resumed int, pixels int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done, t.resumed, t.pixels
}

// workers returns the status of worker processes, nil if there are none.
func (t *Tracker) workers() *worker.Status {
	c := t.remote.Load()
	if c == nil {
		return nil
	}
	status := c.Status()
	return &status
}

// watchSpools records the open spools, and the blocks in them, which an earlier run computed.
func (t *Tracker) watchSpools(writers []*output.Writer, todo *remaining) {
	for n := range t.blocks {
		if todo.before != nil && todo.before[n] {
			t.mark(n, BlockDone)
		}
	}
	var files []*spool.File
	for _, w := range writers {
		files = append(files, w.File)
	}
	t.spools.Store(&files)
}

// Status returns the status of the run. It takes short locks only.
func (t *Tracker) Status() Status {
	s := Status{Stage: *t.stage.Load(), Blocks: make([]BlockState, len(t.blocks)), Remote: t.workers()}
	for n := range s.Blocks {
		s.Blocks[n] = BlockState(t.blocks[n].Load())
	}
	s.Done, s.Resumed, s.Pixels = t.progress()
	for i := range t.local {
		s.Local = append(s.Local, WorkerState{int(t.local[i].block.Load()), int(t.local[i].done.Load())})
	}
	if s.Remote != nil {
		for _, one := range s.Remote.Workers {
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
	if files := t.spools.Load(); files != nil {
		for _, f := range *files {
			s.Spooled = append(s.Spooled, f.Bytes())
		}
	}
	return s
}
