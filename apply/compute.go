package apply

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"leat/ndarray"
	"leat/timing"
)

// workplace is what one worker keeps from block to block.
type workplace struct {
	run       *run
	lane      string
	state     any
	encodings map[*output]*encoding
	arrays    []*lent // memory for outputs
	exprs     any     // evaluators of expressions
}

type lent struct {
	store []byte
	taken bool
}

// array returns an array for this block's outputs; its memory serves again when the block is done.
func (w *workplace) array(t ndarray.DType, shape ...int) *ndarray.Array {
	n, ok := ndarray.Bytes(t, shape...)
	if !ok || len(shape) == 0 || shape[0] < 1 {
		panic(fmt.Sprintf("an array of %v with %v bands can't be made", t, shape))
	}
	for _, l := range w.arrays {
		if !l.taken && len(l.store) >= n && len(l.store) <= 4*n {
			l.taken = true
			return ndarray.Over(t, l.store, shape...)
		}
	}
	l := &lent{ndarray.New(t, shape...).Raw(), true}
	w.arrays = append(w.arrays, l)
	return ndarray.Over(t, l.store, shape...)
}

// giveBack makes the memory free for the next block, and forgets what this one did not use.
func (w *workplace) giveBack() {
	kept := w.arrays[:0]
	for _, l := range w.arrays {
		if l.taken {
			l.taken = false
			kept = append(kept, l)
		}
	}
	w.arrays = kept
}

func newWorkplace(r *run, lane string) *workplace {
	return &workplace{run: r, lane: lane, encodings: map[*output]*encoding{}}
}

// setup makes the state of the job's function.
func (w *workplace) setup(ctx context.Context, info WorkerInfo) (err error) {
	if w.run.job.Setup == nil {
		return nil
	}
	err = w.run.called("Setup", func() (err error) {
		w.state, err = w.run.job.Setup(ctx, info)
		return err
	})
	if err != nil {
		return fmt.Errorf("setting up worker %d: %w", info.Worker+1, err)
	}
	return nil
}

// end ends the state that setup made.
func (w *workplace) end() error {
	if w.run.job.Close == nil {
		return nil
	}
	return w.run.called("Close", func() error { return w.run.job.Close(w.state) })
}

func (r *run) worker(ctx context.Context, number int, ready <-chan *blockData) (err error) {
	w := newWorkplace(r, fmt.Sprintf("worker %d", number+1))
	if err := w.setup(ctx, WorkerInfo{Worker: number, Workers: r.plan.Workers}); err != nil {
		return err
	}
	defer func() {
		if cerr := w.end(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("closing worker %d: %w", number+1, cerr))
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
		if err := ctx.Err(); err != nil { // select picks any of two that are ready
			return err
		}
		at := &r.watched.working[number]
		at.block.Store(int64(d.block.Number))
		r.mark(d.block.Number, BlockHeld)
		if err := w.block(ctx, d); err != nil {
			return err
		}
		at.block.Store(-1)
		at.done.Add(1)
	}
}

// block computes and spools one block.
func (w *workplace) block(ctx context.Context, d *blockData) error {
	r := w.run
	b, err := w.computed(ctx, d)
	if err != nil {
		if r.exprs != nil {
			return err // it names the pixel, or is no fault of the block
		}
		return fmt.Errorf("block %d (%v): %w", b.Number, b.Window, err)
	}
	for i, o := range r.outs {
		e, rec, err := w.encode(b, i)
		if err != nil {
			return err
		}
		if err := o.accept(e, b.Block, rec); err != nil {
			return err
		}
	}
	// An output may be an input's array, so the inputs are lent out only now.
	w.giveBack()
	r.buffers.Put(d)
	return r.blockDone(b.Block, b.extras, b.emitted)
}

// encode makes the record of a computed block for the output that is i-th by name. It is valid until the encoding's next use.
func (w *workplace) encode(b *Block, i int) (*encoding, *record, error) {
	o := w.run.outs[i]
	a := b.outs[o.name]
	if a == nil {
		return nil, nil, fmt.Errorf("block %d (%v): the function set no output %q", b.Number, b.Window, o.name)
	}
	if err := o.begin(b.Number, a.Type, a.Shape[0]); err != nil {
		return nil, nil, err
	}
	e := w.encodings[o]
	if e == nil {
		e = newEncoding(o, w.lane)
		w.encodings[o] = e
	}
	rec, err := e.block(b.Block, a, b.extras[i])
	return e, rec, err
}

// computed runs the function on a block whose inputs have been read.
func (w *workplace) computed(ctx context.Context, d *blockData) (*Block, error) {
	r := w.run
	b := &Block{Block: d.block, run: r, data: d, worker: w, outs: map[string]*ndarray.Array{}, extras: make([]extra, max(1, len(r.outs)))}
	err := w.compute(ctx, b)
	if err == nil {
		b.extras[0].values, err = r.job.encodeValues(b.emitted)
	}
	return b, err
}

// compute calls the function. A panic in it is an error of the run, with its stack.
func (w *workplace) compute(ctx context.Context, b *Block) (err error) {
	defer w.run.timings.Start("computing", w.lane, b.Number).Stop()
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		if p == nil { // runtime.Goexit, which nothing can stop: the run ends, and says so
			p = goexit
			w.run.abort(fmt.Errorf("block %d (%v): the function panicked: %v", b.Number, b.Window, p))
		}
		err = &PanicError{Value: p, Stack: debug.Stack()}
	}()
	err = w.run.function(ctx, b)
	finished = true
	return err
}
