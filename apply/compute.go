package apply

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"leat/apply/internal/output"
	"leat/apply/internal/spool"
	"leat/ndarray"
	"leat/timing"
)

// computeState is what one worker keeps between blocks.
type computeState struct {
	run       *run
	lane      string
	state     any
	encodings map[*output.Writer]*spool.Encoder
	arrays    []*lent // memory of output arrays
	exprs     any     // evaluators of expressions
}

type lent struct {
	store []byte
	taken bool
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

func newComputeState(r *run, lane string) *computeState {
	return &computeState{run: r, lane: lane, encodings: map[*output.Writer]*spool.Encoder{}}
}

// setup calls the job's Setup.
func (w *computeState) setup(ctx context.Context, info WorkerInfo) (err error) {
	if w.run.job.Setup == nil {
		return nil
	}
	err = w.run.called("Setup", func() (err error) {
		w.state, err = w.run.job.Setup(ctx, info)
		return err
	})
	if err != nil {
		return localError(stageSetup, fmt.Sprintf("worker %d", info.Worker+1), nil, err)
	}
	return nil
}

// end calls the job's Close.
func (w *computeState) end() error {
	if w.run.job.Close == nil {
		return nil
	}
	return w.run.called("Close", func() error { return w.run.job.Close(w.state) })
}

func (r *run) worker(ctx context.Context, number int, ready <-chan *blockData) (err error) {
	w := newComputeState(r, fmt.Sprintf("worker %d", number+1))
	if err := w.setup(ctx, WorkerInfo{Worker: number, Workers: r.plan.Workers}); err != nil {
		return err
	}
	defer func() {
		if cerr := w.end(); cerr != nil {
			err = errors.Join(err, localError(stageClosing, w.lane, nil, cerr))
		}
	}()
	for {
		waiting := r.timings.Start("waiting for input", w.lane, timing.NoBlock)
		var d *blockData
		var ok bool
		select {
		case d, ok = <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		waiting.Stop()
		if !ok {
			return nil
		}
		if err := ctx.Err(); err != nil { // select picks a random one of two that are ready
			return err
		}
		at := &r.watched.local[number]
		at.block.Store(int64(d.block.Number))
		r.mark(d.block.Number, BlockHeld)
		if err := w.block(ctx, d); err != nil {
			return err
		}
		at.block.Store(-1)
		at.done.Add(1)
	}
}

// block computes a block and appends its records to the spools.
func (w *computeState) block(ctx context.Context, d *blockData) error {
	r := w.run
	b, err := w.computed(ctx, d)
	if err != nil {
		e := localError(stageComputing, w.lane, &b.Block, err)
		if r.exprs != nil {
			e.text = err.Error() // the message names the pixel, or the block is not the cause
		}
		return e
	}
	for i, o := range r.writers {
		e, rec, err := w.encode(b, i)
		if err != nil {
			return err
		}
		if err := o.Spool.Add(e, b.Block, rec); err != nil {
			return err
		}
	}
	// An output may be an input's array, so the inputs are released only now.
	w.freeArrays()
	r.buffers.Put(d)
	return r.blockDone(b.Block, b.extras, b.emitted)
}

// encode makes the record of a computed block for output i in the order of names. The record is
// valid until the encoding is used again.
func (w *computeState) encode(b *Block, i int) (*spool.Encoder, *spool.Record, error) {
	o := w.run.writers[i]
	a := b.outs[o.Name]
	if a == nil {
		return nil, nil, localError(stageComputing, w.lane, &b.Block,
			fmt.Errorf("the function set no output %q", o.Name))
	}
	if err := o.Begin(b.Number, a.Type, a.Shape[0]); err != nil {
		return nil, nil, err
	}
	e := w.encodings[o]
	if e == nil {
		e = o.NewEncoder(w.lane)
		w.encodings[o] = e
	}
	rec, err := e.Encode(b.Block, a, b.extras[i])
	return e, rec, err
}

// computed runs the function on a block whose inputs have been read.
func (w *computeState) computed(ctx context.Context, d *blockData) (*Block, error) {
	r := w.run
	b := &Block{Block: d.block, run: r, data: d, worker: w, outs: map[string]*ndarray.Array{},
		extras: make([]spool.Extra, max(1, len(r.outs)))}
	err := w.compute(ctx, b)
	if err == nil {
		b.extras[0].Values, err = r.job.encodeValues(b.emitted)
	}
	return b, err
}

// compute calls the function. A panic in it becomes a PanicError with its stack.
func (w *computeState) compute(ctx context.Context, b *Block) (err error) {
	defer w.run.timings.Start("computing", w.lane, b.Number).Stop()
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		if p == nil { // runtime.Goexit can't be stopped: abort the run with an error
			p = goexit
			w.run.abort(localError(stageComputing, w.lane, &b.Block, &PanicError{Value: p}))
		}
		err = &PanicError{Value: p, Stack: debug.Stack()}
	}()
	err = w.run.function(ctx, b)
	finished = true
	return err
}
