package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/units"
	"leat/internal/worker/coordinator"
	"leat/internal/worker/protocol"
	"leat/ndarray"
	"leat/shm"
	"leat/worker"
)

// dispatcher hands the blocks of a run to worker processes. It spools their results as if this
// process had computed them.
type dispatcher struct {
	run         *run
	reads       bool // the workers read the inputs
	coordinator *coordinator.Coordinator
	// accepting bounds the results that are accepted at once: each takes memory and encodes
	// overview tiles.
	accepting chan int
	encodings []map[*output.Writer]*spool.Encoder // by the number from accepting

	mu     sync.Mutex
	lent   map[int]*blockData // by block: arrays that workers read
	places []span
}

// runRemote computes all blocks in workers that the job's launcher starts.
func (r *run) runRemote(ctx context.Context) error {
	o := &dispatcher{run: r, reads: r.plan.WorkersRead, lent: map[int]*blockData{}}
	o.accepting = make(chan int, runtime.GOMAXPROCS(0)+1)
	for i := range cap(o.accepting) {
		o.accepting <- i
		o.encodings = append(o.encodings, map[*output.Writer]*spool.Encoder{})
	}
	if err := o.open(); err != nil {
		return err
	}
	err := o.work(ctx)
	if cerr := o.coordinator.Close(); err == nil {
		err = cerr
	}
	if err == nil && r.done != r.plan.Blocks.Count() {
		err = fmt.Errorf("%d of %d blocks were lost", r.plan.Blocks.Count()-r.done, r.plan.Blocks.Count())
	}
	return err
}

// open creates the coordinator.
func (o *dispatcher) open() error {
	r, c := o.run, &o.run.job.Concurrency
	e, err := r.spec()
	if err != nil {
		return err
	}
	text, err := e.Marshal()
	if err != nil {
		return err
	}
	build, err := protocol.BuildID()
	if err != nil {
		return err
	}
	most := r.maxResult()
	undone := r.plan.Blocks.Count() - r.done
	o.coordinator, err = coordinator.New(coordinator.Options{
		Job: text, Blocks: r.plan.Blocks.Count(), Done: r.isDone, OnDemand: true,
		MaxResult: most, MaxBytes: max(most, plan.ResultBytes(r.plan.BudgetBytes)),
		Accept: o.acceptResult, Released: o.released, Note: o.note,
		Build: build, AllowMixedBuilds: c.AllowMixedBuilds, Workers: min(r.plan.Workers, undone), Barrier: c.Barrier,
		OneBlockPerJob: c.OneBlockPerJob, Logger: r.log,
	})
	if err == nil {
		r.watched.remote.Store(o.coordinator)
	}
	return err
}

// work starts the workers, offers them blocks, and waits for the last block.
func (o *dispatcher) work(ctx context.Context) error {
	r, c := o.run, &o.run.job.Concurrency
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	options := coordinator.RunOptions{Workers: min(r.plan.Workers, r.plan.Blocks.Count()-r.done), Command: c.Command,
		Run: r.runID(), Replace: c.ReplaceWorkers, Logger: r.log}
	if len(options.Command) == 0 {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("this program's file, which workers run, can't be found: %w", err)
		}
		options.Command = []string{program}
	}
	if !c.On.Capabilities().Local {
		var err error
		if options.Endpoint, err = o.listen(); err != nil {
			return err
		}
		folder, err := makeSharedDirectory(r.decided.SharedDir)
		if err != nil {
			return err
		}
		defer func() {
			if err := folder.Remove(); err != nil {
				r.log.Warn("removing the folder that workers shared", "error", err)
			}
		}()
		options.Folder = folder.Path
	}
	var g sync.WaitGroup
	begin := func(f func() error) {
		g.Go(func() {
			if err := f(); err != nil {
				stop(err)
			}
		})
	}
	if o.reads {
		begin(func() error { return o.offerAll(ctx) })
	} else {
		memory, err := o.share()
		if err != nil {
			return err
		}
		defer memory.Close()
		ready := r.feed(ctx, begin)
		begin(func() error { return o.offerRead(ctx, ready) })
	}
	err := r.blockErrors(o.workersLeft(ctx, coordinator.Run(ctx, o.coordinator, c.On, options)))
	stop(nil)
	g.Wait()
	return err
}

// workersLeft returns the error of a run whose workers have ended. It logs that workers may still
// be running where the error does not say so: when all blocks are done, so that the run succeeds,
// and when the run was canceled, so that the cause is the whole error.
func (o *dispatcher) workersLeft(ctx context.Context, err error) error {
	tell := func(s *worker.StopError) { o.run.log.Warn("ending the workers", "error", s) }
	cause := context.Cause(ctx)
	switch e := err.(type) {
	case *worker.StopError:
		tell(e)
		err = nil
	case *worker.RunError:
		for _, after := range e.After {
			if s := new(worker.StopError); cause != nil && errors.As(after, &s) {
				tell(s)
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
	for n := range o.run.plan.Blocks.Count() {
		if o.run.isDone(n) {
			continue
		}
		if err := o.run.merge.waitFor(ctx, n); err != nil {
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
		o.run.buffers.Put(d)
	}
}

// share allocates the run's buffers in memory that workers on this machine attach.
func (o *dispatcher) share() (*shm.Pool, error) {
	r := o.run
	s, err := shm.Open(nil)
	if err != nil {
		return nil, err
	}
	o.places, _ = placesOf(r.in, r.plan.Blocks)
	made := make(chan *blockData, r.plan.Buffers)
	for range r.plan.Buffers {
		d, err := newSharedBlock(s, r.in, r.plan.Blocks)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("memory for blocks that workers share: %w", err), s.Close())
		}
		made <- d
	}
	r.buffers = block.NewFreeList(r.plan.Buffers, func() *blockData { return <-made })
	return s, nil
}

// acceptResult spools what a worker computed for a block.
func (o *dispatcher) acceptResult(ctx context.Context, res *coordinator.Result) error {
	var slot int
	select {
	case slot = <-o.accepting:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { o.accepting <- slot }()
	if err := o.enqueue(o.encodings[slot], slot, res); err != nil {
		if errors.Is(err, spool.ErrRecord) {
			err = fmt.Errorf("worker %s on %s sent an invalid result: %w", res.Worker, res.Host, err)
		}
		return err
	}
	return nil
}

func (o *dispatcher) enqueue(encodings map[*output.Writer]*spool.Encoder, slot int, res *coordinator.Result) error {
	r, b := o.run, o.run.plan.Blocks.At(res.Block)
	a, parts, err := parseAnswer(res.Body, len(r.outs))
	if err != nil {
		return fmt.Errorf("%w: block %d: %w", spool.ErrRecord, b.Number, err)
	}
	extras := make([]spool.Extra, max(1, len(r.outs)))
	records := make([]*spool.Record, len(r.outs))
	for i, out := range r.writers {
		if err := out.Begin(b.Number, a.Outputs[i].Type, a.Outputs[i].Bands); err != nil {
			return err
		}
		if records[i], err = out.Layout.Parse(b, parts[i]); err != nil {
			return err
		}
		extras[i] = records[i].Extra
	}
	extras[0].Values = append(extras[0].Values, parts[len(r.outs):]...)
	emitted, err := r.job.decodeValues(extras[0].Values)
	if err != nil {
		return fmt.Errorf("block %d (%v): %w", b.Number, b.Window, err)
	}
	now := time.Now()
	for _, i := range a.Intervals {
		r.timings.Record(i.Stage, res.Worker+i.Lane, b.Number, now.Add(-i.Ago), i.Length)
	}
	for i, out := range r.writers {
		e := encodings[out]
		if e == nil {
			e = out.NewEncoder(fmt.Sprintf("accepting %d", slot+1))
			encodings[out] = e
		}
		if err := out.Spool.AddRemote(e, b, records[i]); err != nil {
			return err
		}
	}
	return r.blockDone(b, extras, emitted)
}

// note returns the codings chosen so far, for the workers.
func (o *dispatcher) note() json.RawMessage {
	chosen := map[string]string{}
	for _, out := range o.run.writers {
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

// maxResult returns the maximum size of a worker's result for a block.
func (r *run) maxResult() int64 {
	w := block.Window{Width: min(r.plan.Blocks.WindowWidth, r.plan.Grid.Width),
		Height: min(r.plan.Blocks.WindowHeight, r.plan.Grid.Height)}
	n := int64(answerHead)
	for _, o := range r.writers {
		pixel := int64(o.Bands * o.Type.Size())
		if pixel == 0 { // unknown before the first block
			return min(maxAnswer, max(256<<20, r.plan.BudgetBytes/2))
		}
		tiles := int64(output.RoundUp(w.Width, o.TileWidth)) * int64(output.RoundUp(w.Height, o.TileHeight))
		n += tiles*pixel*2 + w.Pixels()*pixel // tiles that no coding makes smaller, and overviews
		n += int64(o.Bands)*(1<<16)*11 + tiles/int64(o.TileWidth*o.TileHeight)*int64(o.Bands)*128
	}
	if r.job.Emits != nil {
		n += maxValues
	}
	return min(n, maxAnswer)
}

const (
	maxAnswer  = 2 << 30  // maximum size of any result
	maxValues  = 64 << 20 // maximum size of a block's encoded values
	answerHead = 1 << 20  // maximum size of a result's head
)

// answer is the head of a worker's result for a block: JSON preceded by its length in 4 bytes,
// little-endian. The records of the outputs follow it, and then, in jobs without outputs, the
// values that the block emitted.
type answer struct {
	Outputs   []answerOutput   `json:"outputs"`          // by name
	Values    []int            `json:"values,omitempty"` // the length of each
	Intervals []answerInterval `json:"intervals,omitempty"`
}

type answerOutput struct {
	Type  ndarray.DType `json:"type"`
	Bands int           `json:"bands"`
	Bytes int           `json:"bytes"` // length of its record
}

// answerInterval is the time that one stage of the work on a block took.
type answerInterval struct {
	Stage  string        `json:"stage"`
	Lane   string        `json:"lane,omitempty"` // within the worker
	Ago    time.Duration `json:"ago"`            // ns from its start to when the head was written
	Length time.Duration `json:"length"`
}

// parseAnswer splits a body into its head, the records of n outputs, and values.
func parseAnswer(body []byte, n int) (*answer, [][]byte, error) {
	t := spool.Decoder{Rest: body}
	head := t.Take(t.Uint32())
	if t.Torn || len(head) > answerHead {
		return nil, nil, errors.New("its head is cut off, or too long")
	}
	a := &answer{}
	if err := json.Unmarshal(head, a); err != nil {
		return nil, nil, fmt.Errorf("its head can't be read: %w", err)
	}
	if len(a.Outputs) != n || n > 0 && len(a.Values) > 0 {
		return nil, nil, fmt.Errorf("it has %s instead of %d", units.Count(len(a.Outputs), "output"), n)
	}
	var parts [][]byte
	for _, o := range a.Outputs {
		if !o.Type.Valid() || o.Bands < 1 || o.Bands > 1<<16 {
			return nil, nil, fmt.Errorf("it has %d bands of type %d", o.Bands, o.Type)
		}
		parts = append(parts, t.Take(o.Bytes))
	}
	for _, bytes := range a.Values {
		parts = append(parts, t.Take(bytes))
	}
	if t.Torn || len(t.Rest) > 0 {
		return nil, nil, errors.New("it is not as long as its head says")
	}
	return a, parts, nil
}
