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

	"leat/block"
	"leat/ndarray"
	"leat/shm"
	"leat/worker"
)

// outside is a run whose blocks are computed in other processes. What they give is accepted here, as if it had been made here.
type outside struct {
	run     *run
	reads   bool // the workers read
	channel *worker.Channel
	// accepting bounds the blocks that are entered at once: that takes memory and encodes overview tiles.
	accepting chan int
	encodings []map[*output]*encoding // by what accepting gives

	mu     sync.Mutex
	lent   map[int]*blockData // by block: arrays that workers read
	places []span
}

// workersRead reports whether workers open and read the inputs.
func (c *Concurrency) workersRead() bool {
	return c.On != nil && (c.Reading == ReadByWorkers || c.Reading == ReadByKind && !c.On.Facts().Local)
}

// blocksOutside has all blocks computed by workers of the kind that the job asks for.
func (r *run) blocksOutside(ctx context.Context) error {
	o := &outside{run: r, reads: r.job.Concurrency.workersRead(), lent: map[int]*blockData{}}
	o.accepting = make(chan int, runtime.GOMAXPROCS(0)+1)
	for i := range cap(o.accepting) {
		o.accepting <- i
		o.encodings = append(o.encodings, map[*output]*encoding{})
	}
	if err := o.open(); err != nil {
		return err
	}
	err := o.work(ctx)
	if cerr := o.channel.Close(); err == nil {
		err = cerr
	}
	if err == nil && r.done != r.plan.Blocks.Count() {
		err = fmt.Errorf("%d of %d blocks were lost", r.plan.Blocks.Count()-r.done, r.plan.Blocks.Count())
	}
	return err
}

// open makes the channel.
func (o *outside) open() error {
	r, c := o.run, &o.run.job.Concurrency
	e, err := r.errand(o.reads)
	if err != nil {
		return err
	}
	text, err := e.marshal()
	if err != nil {
		return err
	}
	build, err := worker.BuildID()
	if err != nil {
		return err
	}
	most := r.maxResult()
	undone := r.plan.Blocks.Count() - r.done
	o.channel, err = worker.NewChannel(worker.Options{
		Job: text, Blocks: r.plan.Blocks.Count(), Done: r.isDone, OnDemand: true,
		MaxResult: most, MaxBytes: max(most, resultBytes(r.plan.BudgetBytes)),
		Accept: o.accept, Released: o.released, Note: o.note,
		Build: build, Mixed: c.Mixed, Workers: min(r.plan.Workers, undone), Barrier: c.Barrier, Single: c.SingleBlockJobs, Logger: r.log,
	})
	if err == nil {
		r.watched.outside.Store(o.channel)
	}
	return err
}

// work starts the workers, feeds them, and waits for the last block.
func (o *outside) work(ctx context.Context) error {
	r, c := o.run, &o.run.job.Concurrency
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	options := worker.RunOptions{Workers: min(r.plan.Workers, r.plan.Blocks.Count()-r.done), Command: c.Command, Run: r.word(), Logger: r.log}
	if len(options.Command) == 0 {
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("this program's file, which workers are to run, can't be found: %w", err)
		}
		options.Command = []string{program}
	}
	if !c.On.Facts().Local {
		var err error
		if options.Invitation, err = o.listen(); err != nil {
			return err
		}
		folder, err := makeSharedFolder(r.sharedBase())
		if err != nil {
			return err
		}
		defer func() {
			if err := folder.remove(); err != nil {
				r.log.Warn("removing the folder that workers shared", "error", err)
			}
		}()
		options.Folder = folder.path
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
	err := o.workersLeft(ctx, worker.Run(ctx, o.channel, c.On, options))
	stop(nil)
	g.Wait()
	return err
}

// workersLeft is the error of a run that had workers. That some may be left is told at once where the error does not: when all blocks are done, to which it is no harm, and when
// the run was ended from outside, which is its whole error then.
func (o *outside) workersLeft(ctx context.Context, err error) error {
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

// offerAll offers blocks that workers read.
func (o *outside) offerAll(ctx context.Context) error {
	for n := range o.run.plan.Blocks.Count() {
		if o.run.isDone(n) {
			continue
		}
		if err := o.run.merge.waitFor(ctx, n); err != nil {
			return err
		}
		o.channel.Offer(n, nil)
	}
	return nil
}

// offerRead offers blocks as they are read.
func (o *outside) offerRead(ctx context.Context, ready <-chan *blockData) error {
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
			o.channel.Offer(d.block.Number, payload)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// released takes back the arrays of a block that no worker looks at any more.
func (o *outside) released(n int) {
	o.mu.Lock()
	d := o.lent[n]
	delete(o.lent, n)
	o.mu.Unlock()
	if d != nil {
		o.run.buffers.Put(d)
	}
}

// share makes the run's buffers in memory that workers of this machine attach.
func (o *outside) share() (*shm.Sharer, error) {
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

// accept enters what a worker made of a block.
func (o *outside) accept(ctx context.Context, res *worker.Result) error {
	var slot int
	select {
	case slot = <-o.accepting:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { o.accepting <- slot }()
	if err := o.enter(o.encodings[slot], slot, res); err != nil {
		if errors.Is(err, errRecord) {
			err = fmt.Errorf("worker %s on %s sent what is no result: %w", res.Worker, res.Host, err)
		}
		return err
	}
	return nil
}

func (o *outside) enter(encodings map[*output]*encoding, slot int, res *worker.Result) error {
	r, b := o.run, o.run.plan.Blocks.At(res.Block)
	a, parts, err := parseAnswer(res.Body, len(r.outs))
	if err != nil {
		return fmt.Errorf("%w: block %d: %w", errRecord, b.Number, err)
	}
	extras := make([]extra, max(1, len(r.outs)))
	records := make([]*record, len(r.outs))
	for i, out := range r.outs {
		if err := out.begin(b.Number, a.Outputs[i].Type, a.Outputs[i].Bands); err != nil {
			return err
		}
		if records[i], err = out.parseRecord(b, parts[i]); err != nil {
			return err
		}
		extras[i] = records[i].extra
	}
	extras[0].values = append(extras[0].values, parts[len(r.outs):]...)
	emitted, err := r.job.decodeValues(extras[0].values)
	if err != nil {
		return fmt.Errorf("block %d (%v): %w", b.Number, b.Window, err)
	}
	now := time.Now()
	for _, i := range a.Intervals {
		r.timings.Record(i.Stage, res.Worker+i.Lane, b.Number, now.Add(-i.Ago), i.Length)
	}
	for i, out := range r.outs {
		e := encodings[out]
		if e == nil {
			e = newEncoding(out, fmt.Sprintf("accepting %d", slot+1))
			encodings[out] = e
		}
		if err := out.judge(e, records[i]); err != nil {
			return err
		}
		if err := out.accept(e, b, records[i]); err != nil {
			return err
		}
	}
	return r.blockDone(b, extras, emitted)
}

// note tells workers which codings have been chosen.
func (o *outside) note() json.RawMessage {
	chosen := map[string]string{}
	for _, out := range o.run.outs {
		if c, ok := out.choice(); ok {
			chosen[out.name] = c
		}
	}
	text, err := json.Marshal(workerNote{chosen})
	if err != nil {
		panic(err) // a map of texts
	}
	return text
}

// workerNote is what workers are told meanwhile.
type workerNote struct {
	Codings map[string]string `json:"codings"` // by output, the chosen coding as the plan shows it
}

// choice is the coding that the trial chose; false while it has not.
func (o *output) choice() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.trial == nil {
		return "", false
	}
	c := o.trial.chosen.Load()
	if c == nil {
		return "", false
	}
	return c.String(), true
}

// maxResult bounds what a worker may send for a block.
func (r *run) maxResult() int64 {
	w := block.Window{Width: min(r.plan.Blocks.WindowWidth, r.plan.Grid.Width), Height: min(r.plan.Blocks.WindowHeight, r.plan.Grid.Height)}
	n := int64(answerHead)
	for _, o := range r.outs {
		pixel := int64(o.bands * o.typ.Size())
		if pixel == 0 { // not known before the first block
			return min(maxAnswer, max(256<<20, r.plan.BudgetBytes/2))
		}
		tiles := int64(roundUp(w.Width, o.tileW)) * int64(roundUp(w.Height, o.tileH))
		n += tiles*pixel*2 + w.Pixels()*pixel // tiles that no coding makes smaller, and overviews
		n += int64(o.bands)*(1<<16)*11 + tiles/int64(o.tileW*o.tileH)*int64(o.bands)*128
	}
	if r.job.Emits != nil {
		n += maxValues
	}
	return min(n, maxAnswer)
}

const (
	maxAnswer  = 2 << 30  // of a result, whatever the block
	maxValues  = 64 << 20 // of what a block emits, encoded
	answerHead = 1 << 20  // of the head of a result
)

// resultBytes is what results that were received and not yet entered may take.
func resultBytes(budget int64) int64 { return min(256<<20, max(16<<20, budget/8)) }

// answer is the head of what a worker sends for a block: JSON behind its length in 4 bytes, little-endian. The records of the outputs follow it, and then, in
// jobs without outputs, the values that the block emitted.
type answer struct {
	Outputs   []answerOutput   `json:"outputs"`          // by name
	Values    []int            `json:"values,omitempty"` // the bytes of each
	Intervals []answerInterval `json:"intervals,omitempty"`
}

type answerOutput struct {
	Type  ndarray.DType `json:"type"`
	Bands int           `json:"bands"`
	Bytes int           `json:"bytes"` // of its record
}

// answerInterval is a stage of the work on a block.
type answerInterval struct {
	Stage  string        `json:"stage"`
	Lane   string        `json:"lane,omitempty"` // within the worker
	Ago    time.Duration `json:"ago"`            // ns from its beginning to when the head was written
	Length time.Duration `json:"length"`
}

// parseAnswer cuts a body into its head, the records of n outputs, and values.
func parseAnswer(body []byte, n int) (*answer, [][]byte, error) {
	t := tables{b: body}
	head := t.take(t.u32())
	if t.torn || len(head) > answerHead {
		return nil, nil, errors.New("its head is cut off, or too long")
	}
	a := &answer{}
	if err := json.Unmarshal(head, a); err != nil {
		return nil, nil, fmt.Errorf("its head can't be read: %w", err)
	}
	if len(a.Outputs) != n || n > 0 && len(a.Values) > 0 {
		return nil, nil, fmt.Errorf("it has %s instead of %d", count(len(a.Outputs), "output"), n)
	}
	var parts [][]byte
	for _, o := range a.Outputs {
		if !o.Type.Valid() || o.Bands < 1 || o.Bands > 1<<16 {
			return nil, nil, fmt.Errorf("it has %d bands of type %d", o.Bands, o.Type)
		}
		parts = append(parts, t.take(o.Bytes))
	}
	for _, bytes := range a.Values {
		parts = append(parts, t.take(bytes))
	}
	if t.torn || len(t.b) > 0 {
		return nil, nil, errors.New("it is not as long as its head says")
	}
	return a, parts, nil
}
