package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"leat/block"
	"leat/namespace"
	"leat/raster"
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
	abort   context.CancelCauseFunc // ends all that goes on, reading by the sources' own context too; the first cause is the run's error

	// continues: outputs have unfinished files of an earlier run to go on from. before tells by block whether that did it, nil for none; resumed is how
	// many it did.
	continues bool
	watched   watched

	before  []bool
	resumed int
	rasters rasters

	mu     sync.Mutex // guards what follows
	done   int
	pixels int64
	merge  merger
}

// prepare checks a job and everything it names, and plans it. Nothing is written.
func prepare(ctx context.Context, job *Job) (*run, error) {
	if err := bindFunction(job); err != nil {
		return nil, err
	}
	if err := validate(job); err != nil {
		return nil, err
	}
	outs, err := resolveOutputs(job)
	if err != nil {
		return nil, err
	}
	if err := checkFormats(outs); err != nil {
		return nil, err
	}
	if err := checkKind(ctx, &job.Concurrency); err != nil {
		return nil, err
	}
	if err := checkStore(ctx, job); err != nil {
		return nil, err
	}
	in, err := openInputs(ctx, job)
	if err != nil {
		return nil, err
	}
	r := &run{job: job, in: in, outs: outs, timings: job.Timings, log: discard(job.Logger), function: job.Func}
	if r.timings == nil {
		r.timings = timing.New()
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
	if err := r.addVectors(ctx, grid); err != nil {
		return err
	}
	if job.Expressions != nil {
		if err := r.compile(grid); err != nil {
			return err
		}
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
	note, err := r.findEarlier()
	if err != nil {
		return err
	}
	if note != "" {
		notes = append(notes, note)
	}
	r.takeWindow()
	if r.plan, err = makePlan(job, r.in, r.outs, grid); err != nil {
		return err
	}
	if err := r.planVectors(); err != nil {
		return err
	}
	r.plan.Notes = append(append(append(notes, r.in.notes()...), r.in.paletteNotes()...), r.plan.Notes...)
	if err := r.tryFormats(ctx); err != nil {
		return err
	}
	r.indexFiles()
	return r.checkEarlier()
}

// compile compiles the job's expressions.
func (r *run) compile(grid raster.Grid) (err error) {
	if r.exprs, err = compileExpressions(r.job, r.in, grid, r.outs); err != nil {
		return err
	}
	r.exprs.run = r
	r.function = r.exprs.compute
	return nil
}

// indexFiles notes which files each input has.
func (r *run) indexFiles() {
	r.fileIndex = map[string][]int{}
	for i, f := range r.in.files {
		r.fileIndex[f.input] = append(r.fileIndex[f.input], i)
	}
}

// Run runs a job: every block once through the function, every output whole under its name, or an
// error and the old files untouched (several outputs are renamed one by one at the very end). A panic of the function, or of
// Merge, Setup, Close, Progress or BeforeClose, is an error, a [PanicError]. It returns when no goroutine of it is left. When ctx ends, Run ends within
// about the time of one block and returns ctx's cause.
func Run(ctx context.Context, job Job) (*Result, error) {
	start := time.Now()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	r, err := prepare(ctx, &job)
	if err != nil {
		return nil, err
	}
	r.abort = abort
	r.tame()
	res, err := r.run(ctx, start)
	if cerr := r.in.close(); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (r *run) run(ctx context.Context, start time.Time) (res *Result, err error) {
	if len(r.job.Vectors) > 0 {
		r.timings.Declare("rasterising")
	}
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
	defer func() { err = r.endSpools(err) }()
	if err := r.openSpools(); err != nil {
		return nil, err
	}
	if err := r.resume(ctx); err != nil {
		return nil, err
	}
	if err := r.startMerge(); err != nil {
		return nil, err
	}
	r.watch()
	if r.done < r.plan.Blocks.Count() {
		defer r.dropRasters()
		if err := r.rasterise(ctx); err != nil {
			return nil, err
		}
	}
	if !r.plan.WorkersRead {
		if err := boundGDAL(r.plan.gdalBytes); err != nil {
			return nil, err
		}
		r.shareTiles()
		if err := r.stage(); err != nil {
			return nil, err
		}
	}
	compute := r.blocks
	if r.job.Concurrency.On != nil {
		compute = r.blocksOutside
	}
	if r.done < r.plan.Blocks.Count() {
		if err := compute(ctx); err != nil {
			return nil, err
		}
		r.dropRasters()
	}
	return r.finish(ctx, start)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// blocks reads, computes and spools all blocks.
func (r *run) blocks(ctx context.Context) error {
	r.buffers = block.NewFreeList(r.plan.Buffers, func() *blockData { return newBlockData(r.in, r.plan.Blocks) })
	var g sync.WaitGroup
	begin := func(f func() error) {
		g.Go(func() {
			if err := f(); err != nil {
				r.abort(err)
			}
		})
	}
	ready := r.feed(ctx, begin)
	for i := range r.plan.Workers {
		begin(func() error { return r.worker(ctx, i, ready) })
	}
	g.Wait()
	r.timings.Gauge("blocks read ahead", 0)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if total := r.plan.Blocks.Count(); r.done != total {
		return fmt.Errorf("%d of %d blocks were lost", total-r.done, total)
	}
	return nil
}

// feed reads all blocks, in goroutines that begin starts, into a queue that it closes behind the last one.
func (r *run) feed(ctx context.Context, begin func(func() error)) <-chan *blockData {
	ahead := newAhead(r)
	tasks := ahead.tasks()
	begin(func() error {
		defer close(tasks)
		for n := range r.plan.Blocks.Count() {
			if r.isDone(n) {
				continue
			}
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
		begin(func() error {
			defer readers.Done()
			return r.reader(ctx, readerName(i), tasks, ready)
		})
	}
	begin(func() error {
		readers.Wait()
		close(ready)
		return nil
	})
	return ready
}

// isDone reports whether an earlier run did a block.
func (r *run) isDone(n int) bool { return r.before != nil && r.before[n] }

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
	r.mark(t.number, BlockRead)
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

// blockDone counts the block and what it gave besides pixels (by output), merges what can be merged, and tells of it.
func (r *run) blockDone(b block.Block, extras []extra, emitted []any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark(b.Number, BlockDone)
	r.done++
	r.pixels += b.Window.Pixels()
	if r.exprs != nil {
		r.exprs.add(extras)
	}
	if r.job.Merge != nil {
		if err := r.merge.add(b.Number, emitted, r.job.Merge); err != nil {
			return err
		}
	}
	if r.job.Progress != nil {
		r.job.Progress(Progress{Done: r.done, Total: r.plan.Blocks.Count(), Pixels: r.pixels, Stage: "blocks"})
	}
	return nil
}
