package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/internal/rundir"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/fault"
	"leat/namespace"
	"leat/timing"
)

// run is a job in progress.
type run struct {
	job       *Job
	res       *resolve.Job
	in        *resolve.Inputs
	outs      []*output.Output
	decided   *plan.Plan
	plan      *Plan
	writers   []*output.Writer // of outs
	timings   *timing.Recorder
	log       *slog.Logger
	fileIndex map[string][]int // by input name
	function  Func
	exprs     *expressions // nil for a Func

	claims  *namespace.Namespace // nil if there are none
	buffers *block.FreeList[*blockData]
	// abort cancels everything, reads with the sources' own context too; the first cause is the
	// run's error.
	abort context.CancelCauseFunc

	// continues means that the run resumes from an earlier one. before reports for each block
	// whether the earlier run computed it, and is nil if none was; resumed is their number.
	continues bool
	clearOnce sync.Once // see clearSpools
	cleared   bool
	clearErr  error
	watched   watched

	before       []bool
	resumed      int
	rasterFolder *rundir.Dir // nil if there are none

	notes  []string   // of the run, in addition to those of the plan
	mu     sync.Mutex // guards the fields below
	done   int
	pixels int64
	merge  merger
}

// env returns what a job needs besides its values.
func (j *Job) env() resolve.Env { return resolve.Env{Open: j.Open, Store: j.Store, Logger: j.Logger} }

// Check returns all errors in a job that can be found before its inputs are combined: wrong fields
// and expressions, inputs that can't be opened, outputs that can't be written. Run and MakePlan
// begin with it. If partial is true, inputs, outputs and expressions may be missing from the job,
// and a reference to a missing one is not an error. Check writes nothing.
func Check(ctx context.Context, job Job, partial bool) error {
	err := job.addOutputLists()
	return errors.Join(err, resolve.Check(ctx, job.values(), job.env(), partial))
}

// prepare checks a job and everything it names, and plans it. It writes nothing.
func prepare(ctx context.Context, job *Job) (*run, error) {
	if err := bindFunction(job); err != nil {
		return nil, err
	}
	if err := job.addOutputLists(); err != nil {
		return nil, errors.Join(err, resolve.Check(ctx, job.values(), job.env(), false))
	}
	res, err := resolve.Resolve(ctx, job.values(), job.env())
	if err != nil {
		return nil, err
	}
	job.Controls = Controls(res.Values.Controls)
	r := &run{job: job, res: res, in: res.Inputs, outs: res.Outputs, timings: job.Timings, log: discard(job.Logger),
		function: job.Func}
	if r.timings == nil {
		r.timings = timing.New()
	}
	if res.Programs != nil {
		r.exprs = newExpressions(r, res.Programs)
		r.function = r.exprs.compute
	}
	if r.decided, err = plan.New(ctx, res); err != nil {
		return nil, errors.Join(err, r.in.Close())
	}
	r.continues = r.decided.Earlier != nil
	r.plan = newPlan(res, r.decided)
	r.indexFiles()
	return r, nil
}

// indexFiles records which files each input has.
func (r *run) indexFiles() {
	r.fileIndex = map[string][]int{}
	for i, f := range r.in.Files {
		r.fileIndex[f.Name] = append(r.fileIndex[f.Name], i)
	}
}

// Run is Start and Wait.
func Run(ctx context.Context, job Job) (*Result, error) {
	r, err := Start(ctx, job)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}

func (r *run) run(ctx context.Context, start time.Time) (res *Result, err error) {
	if len(r.job.Vectors) > 0 {
		r.timings.Declare("rasterising")
	}
	r.timings.Declare("reading", "computing", "encoding", "overviews", "statistics", "spooling", "laying out",
		"waiting to read", "waiting for input")
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
	r.startWriters()
	defer func() { err = r.endSpools(err) }()
	if err := r.openSpools(); err != nil {
		return nil, err
	}
	r.at("resuming")
	if err := r.resume(ctx); err != nil {
		return nil, err
	}
	if err := r.startMerge(); err != nil {
		return nil, err
	}
	r.watchSpools()
	r.at("blocks")
	if r.done < r.plan.Blocks.Count() {
		defer r.dropRasters()
		if err := r.rasterize(ctx); err != nil {
			return nil, err
		}
	}
	if !r.plan.WorkersRead {
		if err := resolve.BoundGDAL(r.decided.GDALBytes); err != nil {
			return nil, err
		}
		r.shareTiles()
		if err := r.in.Stage(r.reads, r.countBlocks); err != nil {
			return nil, err
		}
	}
	compute := r.blocks
	if r.job.Concurrency.On != nil {
		compute = r.runRemote
	}
	if r.done < r.plan.Blocks.Count() {
		if err := compute(ctx); err != nil {
			return nil, err
		}
		r.dropRasters()
	}
	return r.finish(ctx, start)
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

// feed reads all blocks, in goroutines that begin starts, into a queue that it closes after the
// last one.
func (r *run) feed(ctx context.Context, begin func(func() error)) <-chan *blockData {
	ahead := newPrefetcher(r)
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
	// The queue can hold all buffers, so a reader never waits here; the buffers bound the memory.
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

// isDone reports whether an earlier run computed a block.
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
			if ctx.Err() != nil {
				return err
			}
			b := r.plan.Blocks.At(t.number)
			e := localError(stageReading, "", &b, err)
			e.text = err.Error() // the message names the file
			return e
		}
		ready <- d
		r.timings.Gauge("blocks read ahead", int64(len(ready)))
	}
}

// read reads a block, after waiting for the files it needs to be staged.
func (r *run) read(ctx context.Context, lane string, d *blockData, t task) error {
	b := r.plan.Blocks.At(t.number)
	r.mark(t.number, BlockRead)
	if r.in.Waits() {
		staging := r.timings.Start("waiting for staging", lane, t.number)
		if lane == firstReader {
			r.at("staging")
		}
		err := r.in.Wait(ctx, b, r.plan.Blocks)
		if lane == firstReader {
			r.at("blocks")
		}
		staging.Stop()
		if err != nil {
			return err
		}
	}
	reading := r.timings.Start("reading", lane, t.number)
	err := d.read(ctx, r.in, b, r.plan.Blocks, r.job.Controls.Margin)
	reading.Stop()
	if err != nil {
		return err
	}
	return r.in.Done(b, r.plan.Blocks)
}

func readerName(i int) string { return fmt.Sprintf("reader %d", i+1) }

// firstReader shows in the status that all readers wait.
var firstReader = readerName(0)

// blockDone counts the block and its results other than pixels (by output), merges values that are
// next in order.
func (r *run) blockDone(b block.Block, extras []spool.Extra, emitted []any) error {
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
	fault.Point("apply.block-done")
	return nil
}
