package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"leat/block"
	"leat/namespace"
	"leat/ndarray"
	"leat/timing"
)

// run is a job under way.
type run struct {
	job       *Job
	in        *inputs
	outs      []*output
	plan      *Plan
	timings   *timing.Recorder
	log       *slog.Logger
	fileIndex map[string][]int // by input name
	function  Func
	exprs     *expressions // nil for a Func

	claims  *namespace.Namespace // nil where there are none
	buffers *block.FreeList[*blockData]
	abort   context.CancelCauseFunc // ends the run from where no error can be returned

	mu     sync.Mutex // guards what follows
	done   int
	pixels int64
	merge  merger
}

// prepare checks a job and everything it names, and plans it. Nothing is written.
func prepare(ctx context.Context, job *Job) (*run, error) {
	if err := validate(job); err != nil {
		return nil, err
	}
	outs, err := resolveOutputs(job)
	if err != nil {
		return nil, err
	}
	if err := checkStore(ctx, job); err != nil {
		return nil, err
	}
	in, err := openInputs(ctx, job)
	if err != nil {
		return nil, err
	}
	r := &run{job: job, in: in, outs: outs, timings: job.Timings, log: job.Logger, function: job.Func}
	if r.timings == nil {
		r.timings = timing.New()
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if err := r.settle(ctx); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return r, nil
}

// settle brings inputs, expressions, grid and outputs together.
func (r *run) settle(ctx context.Context) error {
	job := r.job
	var notes []string
	if job.Expressions != nil {
		if job.Controls.Overlap > 0 {
			notes = append(notes, fmt.Sprintf("overlap %d is not used: expressions do not look at neighbours", job.Controls.Overlap))
			job.Controls.Overlap = 0
		}
	}
	grid, err := resolveGrid(job, r.in)
	if err != nil {
		return err
	}
	if job.Expressions != nil {
		r.exprs, err = compileExpressions(job, r.in, grid, r.outs)
		if err != nil {
			return err
		}
		r.exprs.run = r
		r.function = r.exprs.compute
	}
	for _, o := range r.outs {
		o.run = r
		o.size(grid)
		if o.typ.Valid() {
			if o.nodata == nil && o.spec.Nodata != "" && o.spec.Nodata != "none" && r.exprs == nil {
				v, err := parseNodata(o.spec.Nodata, o.typ)
				if err != nil {
					return mistakes(fmt.Errorf("output %s: %w", o.name, err))
				}
				o.nodata = &v
			}
			if err := o.checkTyped(); err != nil {
				return mistakes(fmt.Errorf("output %s: %w", o.name, err))
			}
		}
	}
	if err := r.in.chooseAccess(ctx, grid, job.Controls.Overlap); err != nil {
		return err
	}
	if r.plan, err = makePlan(job, r.in, r.outs, grid); err != nil {
		return err
	}
	r.plan.Notes = append(notes, r.plan.Notes...)
	r.fileIndex = map[string][]int{}
	for i, f := range r.in.files {
		r.fileIndex[f.input] = append(r.fileIndex[f.input], i)
	}
	return nil
}

// Run runs a job: every block once through the function, every output whole under its name, or an
// error and the old files untouched (several outputs are renamed one by one at the very end). A panic of the function is an error; one
// of Merge, Setup, Close, Progress or BeforeClose ends the process. It returns when no goroutine of it is left. When ctx ends, Run ends within
// about the time of one block and returns ctx's cause.
func Run(ctx context.Context, job Job) (*Result, error) {
	start := time.Now()
	r, err := prepare(ctx, &job)
	if err != nil {
		return nil, err
	}
	res, err := r.run(ctx, start)
	if cerr := r.in.close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (r *run) run(ctx context.Context, start time.Time) (*Result, error) {
	r.timings.Declare("reading", "computing", "encoding", "overviews", "statistics", "spooling", "laying out", "waiting to read", "waiting for input")
	ns, err := r.claim(ctx)
	if err != nil {
		return nil, err
	}
	if ns != nil {
		r.claims = ns
		defer func() {
			if err := ns.Close(); err != nil {
				r.log.Warn("leaving the run's namespace", "error", err)
			}
		}()
	}
	for _, o := range r.outs {
		if err = o.createSpool(); err != nil {
			r.removeSpools()
			return nil, err
		}
	}
	defer r.removeSpools()
	r.shareTiles()
	if err := r.stage(); err != nil {
		return nil, err
	}
	r.buffers = block.NewFreeList(r.plan.Buffers, func() *blockData { return newBlockData(r.in, r.plan.Blocks) })
	if err := r.blocks(ctx); err != nil {
		return nil, err
	}
	return r.finish(ctx, start)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// removeSpools removes what is left of unfinished outputs.
func (r *run) removeSpools() {
	for _, o := range r.outs {
		if o.spool != nil {
			if err := o.spool.remove(); err != nil {
				r.log.Warn("removing an unfinished output", "error", err)
			}
			o.spool = nil
		}
	}
}

// blocks reads, computes and spools all blocks.
func (r *run) blocks(ctx context.Context) error {
	if r.job.Merge != nil {
		r.merge.start()
	}
	caller := ctx
	ctx, r.abort = context.WithCancelCause(caller)
	defer r.abort(nil)
	aborted := ctx
	g, ctx := errgroup.WithContext(aborted)
	total := r.plan.Blocks.Count()
	ahead := newAhead(r)
	tasks := ahead.tasks()
	g.Go(func() error {
		defer close(tasks)
		for n := range total {
			if err := r.merge.waitFor(ctx, n); err != nil {
				return err
			}
			t, err := ahead.task(ctx, n)
			if err != nil {
				return err
			}
			select {
			case tasks <- t:
			case <-ctx.Done():
				t.release()
				return ctx.Err()
			}
		}
		return nil
	})
	// The queue can hold all buffers, so that a reader never waits here: memory is bounded by the buffers.
	ready := make(chan *blockData, r.plan.Buffers)
	var readers sync.WaitGroup
	for i := range r.plan.Readers {
		readers.Add(1)
		g.Go(func() error {
			defer readers.Done()
			return r.reader(ctx, readerName(i), tasks, ready)
		})
	}
	g.Go(func() error {
		readers.Wait()
		close(ready)
		return nil
	})
	for i := range r.plan.Workers {
		g.Go(func() error { return r.worker(ctx, i, ready) })
	}
	err := g.Wait()
	r.timings.Gauge("blocks read ahead", 0)
	if err != nil && caller.Err() != nil && errors.Is(err, caller.Err()) {
		return context.Cause(caller)
	}
	if cause := context.Cause(aborted); cause != nil && caller.Err() == nil {
		return cause
	}
	if err == nil && r.done != total {
		return fmt.Errorf("%d of %d blocks were lost", total-r.done, total)
	}
	return err
}

func (r *run) reader(ctx context.Context, lane string, tasks <-chan task, ready chan<- *blockData) error {
	for {
		waiting := r.timings.Start("waiting to read", lane, timing.NoBlock)
		d, err := r.buffers.Get(ctx)
		if err != nil {
			return err
		}
		var t task
		var ok bool
		select {
		case t, ok = <-tasks:
		case <-ctx.Done():
		}
		waiting.Stop()
		if !ok {
			r.buffers.Put(d)
			return ctx.Err()
		}
		err = r.read(ctx, lane, d, t)
		t.release()
		if err != nil {
			return err
		}
		ready <- d
		r.timings.Gauge("blocks read ahead", int64(len(ready)))
	}
}

// read reads a block, and waits before for what it needs and is being staged.
func (r *run) read(ctx context.Context, lane string, d *blockData, t task) error {
	b := r.plan.Blocks.At(t.number)
	if r.in.waits() {
		staging := r.timings.Start("waiting for staging", lane, t.number)
		stop := func() {}
		if lane == firstReader {
			stop = r.tell("staging")
		}
		err := r.in.wait(ctx, b, r.plan.Blocks)
		stop()
		staging.Stop()
		if err != nil {
			return err
		}
	}
	reading := r.timings.Start("reading", lane, t.number)
	err := r.in.read(ctx, d, b, r.plan.Blocks, r.job.Controls.Margin)
	reading.Stop()
	if err != nil {
		return err
	}
	return r.in.done(b, r.plan.Blocks)
}

func readerName(i int) string { return fmt.Sprintf("reader %d", i+1) }

// firstReader tells of the waiting of all.
var firstReader = readerName(0)

// tellEvery is how often people are told of what takes long and ends no block.
const tellEvery = 500 * time.Millisecond

// tell calls Progress now and then with a stage in which no block ends, until stop is called.
func (r *run) tell(stage string) (stop func()) {
	if r.job.Progress == nil {
		return func() {}
	}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			r.mu.Lock()
			r.job.Progress(Progress{Done: r.done, Total: r.plan.Blocks.Count(), Pixels: r.pixels, Stage: stage})
			r.mu.Unlock()
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

// worker is what one worker keeps from block to block.
type worker struct {
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
func (w *worker) array(t ndarray.DType, shape ...int) *ndarray.Array {
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
func (w *worker) giveBack() {
	kept := w.arrays[:0]
	for _, l := range w.arrays {
		if l.taken {
			l.taken = false
			kept = append(kept, l)
		}
	}
	w.arrays = kept
}

func (r *run) worker(ctx context.Context, number int, ready <-chan *blockData) (err error) {
	w := &worker{run: r, lane: fmt.Sprintf("worker %d", number+1), encodings: map[*output]*encoding{}}
	if r.job.Setup != nil {
		if w.state, err = r.job.Setup(ctx, WorkerInfo{Worker: number, Workers: r.plan.Workers}); err != nil {
			return fmt.Errorf("setting up worker %d: %w", number+1, err)
		}
	}
	if r.job.Close != nil {
		defer func() {
			if cerr := r.job.Close(w.state); cerr != nil {
				err = errors.Join(err, fmt.Errorf("closing worker %d: %w", number+1, cerr))
			}
		}()
	}
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
		if err := w.block(ctx, d); err != nil {
			return err
		}
	}
}

// block computes and spools one block.
func (w *worker) block(ctx context.Context, d *blockData) error {
	r := w.run
	b := &Block{Block: d.block, run: r, data: d, worker: w, outs: map[string]*ndarray.Array{}}
	if err := w.compute(ctx, b); err != nil {
		if r.exprs != nil {
			return err // it names the pixel, or is no fault of the block
		}
		return fmt.Errorf("block %d (%v): %w", b.Number, b.Window, err)
	}
	for _, o := range r.outs {
		a := b.outs[o.name]
		if a == nil {
			return fmt.Errorf("block %d (%v): the function set no output %q", b.Number, b.Window, o.name)
		}
		if err := o.begin(b.Number, a.Type, a.Shape[0]); err != nil {
			return err
		}
		e := w.encodings[o]
		if e == nil {
			e = newEncoding(o, w.lane)
			w.encodings[o] = e
		}
		if err := e.block(b.Block, a); err != nil {
			return err
		}
	}
	// An output may be an input's array, so the inputs are lent out only now.
	w.giveBack()
	r.buffers.Put(d)
	return r.blockDone(b)
}

// compute calls the function. A panic in it is an error of the run, with its stack.
func (w *worker) compute(ctx context.Context, b *Block) (err error) {
	defer w.run.timings.Start("computing", w.lane, b.Number).Stop()
	finished := false
	defer func() {
		if finished {
			return
		}
		p := recover()
		if p == nil { // runtime.Goexit, which nothing can stop: the run ends, and says so
			p = "it ended its goroutine (runtime.Goexit)"
			w.run.abort(fmt.Errorf("block %d (%v): the function panicked: %v", b.Number, b.Window, p))
		}
		err = &PanicError{Value: p, Stack: debug.Stack()}
	}()
	err = w.run.function(ctx, b)
	finished = true
	return err
}

// PanicError is a panic of the job's function.
type PanicError struct {
	Value any
	Stack []byte // where it happened
}

func (e *PanicError) Error() string { return fmt.Sprintf("the function panicked: %v", e.Value) }

// blockDone counts the block, merges what can be merged, and tells of it.
func (r *run) blockDone(b *Block) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.pixels += b.Window.Pixels()
	if r.job.Merge != nil {
		if err := r.merge.add(b.Number, b.emitted, r.job.Merge); err != nil {
			return err
		}
	}
	if r.job.Progress != nil {
		r.job.Progress(Progress{Done: r.done, Total: r.plan.Blocks.Count(), Pixels: r.pixels, Stage: "blocks"})
	}
	return nil
}
