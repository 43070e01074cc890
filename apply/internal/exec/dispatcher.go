package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"leat/internal/freelist"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/internal/worker/coordinator"
	"leat/internal/worker/protocol"
	"leat/internal/worker/runerror"
	"leat/shm"
	"leat/timing"
	"leat/worker"
)

// dispatcher hands the blocks of a run to worker processes. It spools their results as if this
// process had computed them.
type dispatcher struct {
	job      *resolve.Job
	plan     *plan.Plan
	inputs   *resolve.Inputs
	writers  []*output.Writer
	function *Function
	results  *results
	todo     *remaining
	feed     *feeder // reads blocks for workers that do not
	tracker  *Tracker
	timings  *timing.Recorder
	log      *slog.Logger
	abort    func(cause error) // see Options.Abort

	coordinator *coordinator.Coordinator
	// accepting bounds the results that are accepted at once: each takes memory and encodes
	// overview tiles.
	accepting *freelist.List[*acceptor]

	buffers *freelist.List[*blockData] // in memory that workers attach
	places  []span
	shared  *resultMemory // nil if results come with messages only
	mu      sync.Mutex
	lent    map[int]*blockData // by block: arrays that workers read
}

// run computes all blocks in workers that the job's launcher starts.
func (o *dispatcher) run(ctx context.Context) error {
	var made atomic.Int32
	o.accepting = freelist.New(runtime.GOMAXPROCS(0)+1, func() (*acceptor, error) {
		return &acceptor{fmt.Sprintf("accepting %d", made.Add(1)), map[*output.Writer]*spool.Encoder{}}, nil
	})
	if err := o.open(); err != nil {
		return errors.Join(err, o.shared.close())
	}
	err := o.work(ctx)
	if cerr := o.coordinator.Close(); err == nil {
		err = cerr
	}
	if cerr := o.shared.close(); err == nil { // Close has waited for results that are being accepted
		err = cerr
	}
	return err
}

// open creates the coordinator.
func (o *dispatcher) open() error {
	c, p := &o.job.Values.Concurrency, o.plan
	var outs []*output.Output
	for _, w := range o.writers {
		outs = append(outs, &w.Output)
	}
	spec, err := NewSpec(o.job.Values, p, o.inputs, outs)
	if err != nil {
		return err
	}
	if !o.job.Domain.Empty() {
		spec.Domain = &o.job.Domain
	}
	spec.Results = o.shareResults()
	text, err := spec.Marshal()
	if err != nil {
		return err
	}
	build, err := protocol.BuildID()
	if err != nil {
		return err
	}
	maxValue := int64(0)
	if o.job.Values.Function.MergesWorkers {
		maxValue = protocol.MaxValue
	}
	most := maxResult(p, o.writers, o.function.Emits != nil)
	o.coordinator, err = coordinator.New(coordinator.Options{
		Job: text, Blocks: p.Blocks.Count(), Done: func(n int) bool { return !o.todo.contains(n) }, OnDemand: true,
		MaxResult: most, MaxBytes: max(most, plan.ResultBytes(p.BudgetBytes)),
		Accept: o.acceptResult, Released: o.released, Note: o.note,
		Build: build, AllowMixedBuilds: c.AllowMixedBuilds, Workers: min(p.Workers, o.todo.count), Barrier: c.Barrier,
		Holds: o.holds(), OneBlockPerJob: c.OneBlockPerJob, NoCopies: c.NoCopies, MaxValue: maxValue,
		MaxValues: max(maxValue, p.BudgetBytes/2), Logger: o.log,
	})
	if err == nil {
		o.tracker.remote.Store(o.coordinator)
	}
	return err
}

// shareResults allocates memory into which workers on this machine encode their results, and
// returns its handles. Workers without such memory send their tiles.
func (o *dispatcher) shareResults() []string {
	c := &o.job.Values.Concurrency
	if !c.On.Capabilities().Local || c.OneBlockPerJob {
		return nil
	}
	workers := min(o.plan.Workers, o.todo.count)
	var err error
	o.shared, err = newResultMemory(workers, plan.SlotsEach(workers),
		recordBytes(o.plan.Grid, o.plan.Blocks, o.writers))
	if err != nil {
		o.log.Debug("no shared memory for results", "error", err)
	}
	if o.shared == nil {
		return nil
	}
	return o.shared.handles
}

// holds returns how many blocks a worker that reads may hold, which its memory limits.
func (o *dispatcher) holds() func(slots int) int {
	if o.plan.WorkersRead {
		return plan.BuffersEach
	}
	return nil
}

// work starts the workers, offers them blocks, and waits for the last block.
func (o *dispatcher) work(ctx context.Context) error {
	c := &o.job.Values.Concurrency
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	options := coordinator.RunOptions{Workers: min(o.plan.Workers, o.todo.count), Command: c.Command,
		Run: runID(o.plan.SharedDir), Replace: c.ReplaceWorkers, Logger: o.log}
	if len(options.Command) == 0 {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("this program's file, which workers run, can't be found: %w", err)
		}
		options.Command = []string{program}
	}
	if !c.On.Capabilities().Local {
		var err error
		if options.Endpoint, err = listen(o.coordinator, c.Listen); err != nil {
			return err
		}
		dir, err := makeSharedDirectory(o.plan.SharedDir)
		if err != nil {
			return err
		}
		defer func() {
			if err := dir.Remove(); err != nil {
				o.log.Warn("removing shared directory failed", "error", err)
			}
		}()
		options.Dir = dir.Path
	}
	var g sync.WaitGroup
	begin := func(f func() error) {
		g.Go(func() {
			if err := f(); err != nil {
				stop(err)
			}
		})
	}
	if o.plan.WorkersRead {
		begin(func() error { return o.offerAll(ctx) })
	} else {
		var memory *shm.Pool
		defer func() { // after g.Wait
			if memory != nil {
				memory.Close()
			}
		}()
		begin(func() (err error) { // while the workers start
			if memory, err = o.share(); err != nil {
				return err
			}
			return o.offerRead(ctx, o.feed.start(ctx, o.buffers, begin))
		})
	}
	failed := &failures{o.plan.Blocks, o.function.sentinels()}
	err := failed.blockErrors(o.workersLeft(ctx, coordinator.Run(ctx, o.coordinator, c.On, options)))
	if err != nil {
		o.abort(err) // a reader may wait for a source
		stop(nil)
	}
	g.Wait() // after the last block, for the rest of the files that are being staged
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil || !o.job.Values.Function.MergesWorkers {
		return err
	}
	return o.takeWorkerValues()
}

// takeWorkerValues decodes the values of workers, which have ended.
func (o *dispatcher) takeWorkerValues() error {
	for _, v := range o.coordinator.Values() {
		values, err := o.function.decodeWorkerValues(v.Body)
		if err != nil {
			return fmt.Errorf("worker %s on %s: %w", v.Name, v.Host, err)
		}
		for _, value := range values {
			o.results.addWorker(workerValue{v.Worker, value})
		}
	}
	return nil
}

// workersLeft returns the error of a run whose workers have ended. It logs that workers may still
// be running where the error does not say so: when all blocks are done, so that the run succeeds,
// and when the run was canceled, so that the cause is the whole error.
func (o *dispatcher) workersLeft(ctx context.Context, err error) error {
	warn := func(s *runerror.StopError) { o.log.Warn("ending workers failed", "error", s) }
	cause := context.Cause(ctx)
	switch e := err.(type) {
	case *runerror.StopError:
		warn(e)
		err = nil
	case *worker.RunError:
		for _, after := range e.After {
			if s := new(runerror.StopError); cause != nil && errors.As(after, &s) {
				warn(s)
			}
		}
	}
	if cause != nil {
		return cause
	}
	return err
}

// offerAll offers the blocks that workers read themselves.
func (o *dispatcher) offerAll(ctx context.Context) error {
	for n := range o.todo.all() {
		if err := o.results.merger.waitFor(ctx, n); err != nil {
			return err
		}
		o.coordinator.Offer(n, nil)
	}
	return nil
}

// offerRead offers blocks as they are read.
func (o *dispatcher) offerRead(ctx context.Context, ready <-chan *blockData) error {
	for {
		select {
		case d, ok := <-ready:
			if !ok {
				return nil
			}
			payload, err := json.Marshal(d.describe(o.places))
			if err != nil {
				return err
			}
			o.mu.Lock()
			o.lent[d.block.Number] = d
			o.mu.Unlock()
			o.coordinator.Offer(d.block.Number, payload)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// released frees the arrays of a block that no worker uses any more.
func (o *dispatcher) released(n int) {
	o.mu.Lock()
	d := o.lent[n]
	delete(o.lent, n)
	o.mu.Unlock()
	if d != nil {
		o.buffers.Put(d)
	}
}

// share allocates the run's buffers in memory that workers on this machine attach.
func (o *dispatcher) share() (*shm.Pool, error) {
	o.places, _ = placesOf(o.inputs, o.plan.Blocks)
	var memory *shm.Pool
	var err error
	o.buffers, memory, err = newBlocksInMemory(o.inputs, o.plan.Blocks, o.plan.Buffers)
	return memory, err
}

// acceptor has the encoders by which one result at a time is accepted.
type acceptor struct {
	lane     string // in timings
	encoders map[*output.Writer]*spool.Encoder
}

// acceptResult spools what a worker computed for a block.
func (o *dispatcher) acceptResult(ctx context.Context, res *coordinator.Result) error {
	by, err := o.accepting.Get(ctx)
	if err != nil {
		return err
	}
	defer o.accepting.Put(by)
	if err := o.enqueue(by, res); err != nil {
		if errors.Is(err, spool.ErrRecord) {
			err = fmt.Errorf("worker %s on %s sent an invalid result: %w", res.Worker, res.Host, err)
		}
		return err
	}
	return nil
}

func (o *dispatcher) enqueue(by *acceptor, res *coordinator.Result) error {
	b := o.plan.Blocks.At(res.Block)
	a, parts, err := parseAnswer(res.Body, len(o.writers))
	if err != nil {
		return fmt.Errorf("%w: block %d: %w", spool.ErrRecord, b.Number, err)
	}
	extras := make([]spool.Extra, max(1, len(o.writers)))
	records := make([]*spool.Record, len(o.writers))
	for i, out := range o.writers {
		if err := out.Begin(b.Number, a.Outputs[i].Type, a.Outputs[i].Bands); err != nil {
			return err
		}
		if records[i], err = o.shared.record(out.Layout, b, parts[i], res, &a.Outputs[i]); err != nil {
			return err
		}
		extras[i] = records[i].Extra
	}
	extras[0].Values = append(extras[0].Values, parts[len(o.writers):]...)
	emitted, err := o.function.decodeValues(extras[0].Values)
	if err != nil {
		return fmt.Errorf("block %d (%v): %w", b.Number, b.Window, err)
	}
	now := time.Now()
	for _, i := range a.Intervals {
		o.timings.Record(i.Stage, res.Worker+i.Lane, b.Number, now.Add(-i.Ago), i.Length)
	}
	for i, out := range o.writers {
		e := by.encoders[out]
		if e == nil {
			e = out.NewEncoder(by.lane)
			by.encoders[out] = e
		}
		if err := out.Spool.AddRemote(e, b, records[i]); err != nil {
			return err
		}
	}
	return o.results.add(b, extras, emitted)
}

// note returns the codings chosen so far, for the workers.
func (o *dispatcher) note() json.RawMessage {
	chosen := map[string]string{}
	for _, out := range o.writers {
		if c, ok := out.Choice(); ok {
			chosen[out.Name] = c
		}
	}
	text, err := json.Marshal(workerNote{chosen})
	if err != nil {
		panic(err) // can't happen: a map of strings
	}
	return text
}

// workerNote is sent to workers while they run.
type workerNote struct {
	Codings map[string]string `json:"codings"` // by output: the chosen coding as the plan shows it
}
