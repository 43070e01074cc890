package exec

import (
	"context"
	"fmt"
	"runtime/debug"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
	"leat/timing"
)

// computing is what computing blocks needs in the process of the run and in a worker process. It is
// only read.
type computing struct {
	grid        raster.Grid
	blocks      block.Plan
	outputBytes int64 // limit of the outputs of one block (Block.OutputBytes)
	files       []*resolve.File
	writers     []*output.Writer // of the outputs
	function    Function
	expressions *expressions // nil for a function
	variables   *expressions // of a function; nil if there are none
	focal       bool         // expressions or variables have focal functions, which alone need the margin
	timings     *timing.Recorder
	abort       func(cause error) // ends the run
}

func newComputing(job *resolve.Job, blocks block.Plan, outputBytes int64, in *resolve.Inputs, writers []*output.Writer,
	f Function, timings *timing.Recorder, abort func(error)) *computing {
	c := &computing{grid: job.Grid, blocks: blocks, outputBytes: outputBytes, files: in.Files, writers: writers,
		function: f, timings: timings, abort: abort}
	if job.Programs != nil {
		c.expressions = &expressions{programs: job.Programs, collisionFails: job.Values.Controls.NodataCollision}
		c.function.Compute = c.expressions.compute
	}
	c.focal = !job.Domain.Empty()
	if job.Variables != nil {
		c.variables = &expressions{programs: job.Variables}
	}
	return c
}

// computeState is what one worker keeps between blocks.
type computeState struct {
	shared     *computing
	lane       string
	state      any              // of the function
	encodings  []*spool.Encoder // by output
	memory     [][]byte         // for encoded tiles, by output; nil: the encoders have their own
	arrays     []*lent          // memory of output arrays
	evaluators *evaluators      // of expressions or variables
	computed   int              // blocks that the state has seen
}

type lent struct {
	store []byte
	taken bool
}

func newComputeState(c *computing, lane string) *computeState {
	return &computeState{shared: c, lane: lane, encodings: make([]*spool.Encoder, len(c.writers))}
}

// array returns an array for the outputs of the current block. freeArrays frees its memory for the
// next one.
func (w *computeState) array(t ndarray.DType, shape ...int) *ndarray.Array {
	n, ok := ndarray.ByteSize(t, shape...)
	if !ok || len(shape) == 0 || shape[0] < 1 {
		panic(fmt.Sprintf("an array of %v with %v bands can't be made", t, shape))
	}
	for _, l := range w.arrays {
		if !l.taken && len(l.store) >= n && len(l.store) <= 4*n {
			l.taken = true
			return ndarray.FromBytes(t, l.store, shape...)
		}
	}
	l := &lent{ndarray.New(t, shape...).Raw(), true}
	w.arrays = append(w.arrays, l)
	return ndarray.FromBytes(t, l.store, shape...)
}

// freeArrays frees the arrays for the next block and drops those that this one did not use.
func (w *computeState) freeArrays() {
	kept := w.arrays[:0]
	for _, l := range w.arrays {
		if l.taken {
			l.taken = false
			kept = append(kept, l)
		}
	}
	w.arrays = kept
}

// setup calls the function's Setup.
func (w *computeState) setup(ctx context.Context, info WorkerInfo) (err error) {
	f := &w.shared.function
	if f.Setup == nil {
		return nil
	}
	err = call("Setup", w.shared.abort, func() (err error) {
		w.state, err = f.Setup(ctx, info)
		return err
	})
	if err != nil {
		return localError(stageSetup, fmt.Sprintf("worker %d", info.Worker+1), nil, err)
	}
	return nil
}

// end calls the function's Close, and returns its value.
func (w *computeState) end() (value any, err error) {
	f := &w.shared.function
	if f.Close == nil {
		return nil, nil
	}
	err = call("Close", w.shared.abort, func() (err error) {
		value, err = f.Close(w.state)
		return err
	})
	return value, err
}

// begin begins a block and the next one, if that has been read and Begin asks for it. It returns
// the next one, or nil.
func (w *computeState) begin(d *blockData, ready <-chan *blockData) (next *blockData) {
	begin := w.shared.function.Begin
	if begin == nil || !begin(&Block{Block: d.block, state: w, data: d}) {
		return nil
	}
	select {
	case next = <-ready: // nil if there are no more
		if next != nil {
			begin(&Block{Block: next.block, state: w, data: next})
		}
	default:
	}
	return next
}

// compute runs the function on a block whose inputs have been read. It returns the block even if
// there is an error.
func (w *computeState) compute(ctx context.Context, d *blockData) (*Block, error) {
	w.computed++
	n := len(w.shared.writers)
	b := &Block{Block: d.block, state: w, data: d, outs: make([]*ndarray.Array, n),
		extras: make([]spool.Extra, max(1, n))}
	err := w.call(ctx, b)
	if err == nil {
		b.extras[0].Values, err = w.shared.function.encodeValues(b.emitted)
	}
	return b, err
}

// call calls the function. A panic in it becomes a PanicError with its stack.
func (w *computeState) call(ctx context.Context, b *Block) (err error) {
	defer w.shared.timings.Start("computing", w.lane, b.Number).Stop()
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		if p == nil { // runtime.Goexit can't be stopped: abort the run with an error
			p = goexit
			w.shared.abort(localError(stageComputing, w.lane, &b.Block, &outcome.PanicError{Value: p}))
		}
		err = &outcome.PanicError{Value: p, Stack: debug.Stack()}
	}()
	if v := w.shared.variables; v != nil {
		err = v.computeVariables(ctx, b)
	}
	if err == nil {
		err = w.shared.function.Compute(ctx, b)
	}
	finished = true
	return err
}

// encode makes the record of a computed block for an output. The record is valid until the encoder
// is used again.
func (w *computeState) encode(b *Block, i int) (*spool.Encoder, *spool.Record, error) {
	o := w.shared.writers[i]
	a, t, bands := b.outs[i], output.TableType, output.TableBands
	switch {
	case o.Spec.Table != nil:
	case a == nil:
		return nil, nil, localError(stageComputing, w.lane, &b.Block,
			fmt.Errorf("the function set no output %q", o.Name))
	default:
		t, bands = a.Type, a.Shape[0]
	}
	if err := o.Begin(b.Number, t, bands); err != nil {
		return nil, nil, err
	}
	if w.encodings[i] == nil {
		w.encodings[i] = o.NewEncoder(w.lane)
		if w.memory != nil && len(w.memory[i]) > 0 {
			w.encodings[i].SetMemory(w.memory[i])
		}
	}
	rec, err := w.encodings[i].Encode(b.Block, a, b.extras[i])
	return w.encodings[i], rec, err
}
