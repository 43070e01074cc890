package exec

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/freelist"
	"leat/internal/worker/client"
	"leat/shm"
	"leat/timing"
)

// remoteWorker is a worker process's part of a run.
type remoteWorker struct {
	shared  *computing
	inputs  *resolve.Inputs
	life    context.Context // ends after Close, or when the worker has to end early
	number  int
	workers int
	slots   []*slot
	// A worker that reads the inputs has reader, buffers, staging and ahead; memory is then for a
	// function in another process, if any. For other workers it is the coordinator's.
	reader  *blockReader
	buffers *freelist.List[*blockData]
	staging *staging
	ahead   *prefetcher
	memory  *shm.Pool
	results *shm.Pool // of the memory into which the slots encode; nil: they have their own

	maxValue    int64 // maximum size of the worker's value
	givesValues bool

	mu       sync.Mutex
	attached map[shm.Handle]*shm.Array
	note     workerNote
	stages   map[int][]stageInterval // of blocks in progress
	closing  error                   // errors of states that were closed before the end
}

// slot computes one block at a time.
type slot struct {
	*computeState
	number int
	ready  bool   // Setup has succeeded
	stop   func() // ends the context that Setup got
	at     []int  // of the memory of each output in that of the worker
	head   []byte
}

type stageInterval struct {
	stage, lane string
	start       time.Time
	length      time.Duration
}

// OpenWorker makes a worker process's part of a run from its spec and the job that
// [resolve.Restore] made of that. The worker closes the job's inputs.
func OpenWorker(ctx context.Context, s *jobspec.Spec, job *resolve.Job, f Function, j client.JoinInfo,
	log *slog.Logger) (client.Handler, error) {
	w := &remoteWorker{inputs: job.Inputs, life: ctx, number: j.Number, workers: max(j.Workers, 1),
		maxValue: j.MaxValue, givesValues: s.MergesWorkers,
		attached: map[shm.Handle]*shm.Array{}, stages: map[int][]stageInterval{}}
	timings := timing.Forward(w.record)
	var writers []*output.Writer
	for _, o := range job.Outputs {
		writers = append(writers, output.NewWriter(o, output.Options{Grid: s.Grid, Blocks: s.Blocks, Workers: 1,
			Timings: timings, Log: log}))
	}
	w.shared = newComputing(job, s.Blocks, s.OutputBytes, job.Inputs, writers, f, timings, w.abort)
	for range max(1, j.Slots) {
		lane := ""
		if j.Slots > 1 {
			lane = fmt.Sprintf(" slot %d", len(w.slots)+1)
		}
		w.slots = append(w.slots, &slot{computeState: newComputeState(w.shared, lane), number: len(w.slots)})
	}
	if err := w.shareResults(s); err != nil { // a worker may not see the run's memory, as in a container
		log.Debug("no shared memory for results", "error", err)
	}
	if s.Reads {
		w.reader = newBlockReader(job.Inputs, s.Blocks, job.ReaderMargin(), s.ExtraReads)
		if n := plan.BuffersEach(len(w.slots)); !f.Shared {
			w.buffers = freelist.New(n, w.reader.newBlock)
		} else {
			var err error
			if w.buffers, w.memory, err = newBlocksOnDemand(job.Inputs, s.Blocks, n); err != nil {
				return nil, errors.Join(err, job.Inputs.Close())
			}
		}
		w.staging = newStaging(job.Inputs, s.Blocks)
		w.ahead = newPrefetcher(w.staging.pieces, s.Blocks, max(1, s.AheadBytes))
		shareTiles(job.Inputs, s.CacheBytes, newRemaining(s.Blocks, nil, nil))
		return w, nil
	}
	var err error
	if w.memory, err = shm.Open(nil); err != nil {
		return nil, errors.Join(err, job.Inputs.Close())
	}
	return w, nil
}

// shareResults makes the slots encode into the memory that the run has allocated for this worker,
// if any. After an error they send their tiles.
func (w *remoteWorker) shareResults(s *jobspec.Spec) error {
	if w.number >= len(s.Results) {
		return nil
	}
	pool, err := shm.Open(nil)
	if err != nil {
		return err
	}
	a, err := pool.Attach(shm.Handle(s.Results[w.number]), shm.ReadWrite)
	if err != nil {
		return errors.Join(fmt.Errorf("memory for results: %w", err), pool.Close())
	}
	area, err := shm.Slice[uint8](a)
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	w.results = pool
	outputs := recordBytes(s.Grid, s.Blocks, w.shared.writers)
	at := 0
	for i, parts := range slotMemory(area, len(w.slots), outputs) {
		w.slots[i].memory = parts
		for _, n := range outputs {
			w.slots[i].at = append(w.slots[i].at, at)
			at += n
		}
	}
	return nil
}

// sharedAt returns the offset of the data of an output's record in the worker's shared memory, and
// false if the data is elsewhere.
func (s *slot) sharedAt(i int, data []byte) (at int, ok bool) {
	if s.memory == nil || len(s.memory[i]) == 0 || len(data) == 0 || &data[0] != &s.memory[i][0] {
		return 0, false
	}
	return s.at[i], true
}

// record keeps an interval of a block for the block's answer.
func (w *remoteWorker) record(stage, lane string, block int, start time.Time, length time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stages[block] = append(w.stages[block], stageInterval{stage, lane, start, length})
}

// Holds returns how many blocks the worker may hold. Its memory limits them if it reads blocks.
func (w *remoteWorker) Holds() int {
	if w.reader == nil {
		return len(w.slots) + 1
	}
	return plan.BuffersEach(len(w.slots))
}

// Read returns the arrays of a block, read from its files or attached in the coordinator's shared
// memory.
func (w *remoteWorker) Read(ctx context.Context, l client.Lease) (any, error) {
	if total := w.shared.blocks.Count(); l.Block < 0 || l.Block >= total {
		return nil, fmt.Errorf("block %d out of range (the run has %d)", l.Block, total)
	}
	if w.reader == nil {
		return w.attach(l)
	}
	d, err := w.buffers.Get(ctx)
	if err != nil {
		return nil, err
	}
	b := w.shared.blocks.At(l.Block)
	reading := w.shared.timings.Start("reading", "", l.Block)
	if err = w.staging.wait(ctx, b); err == nil {
		err = w.readFetched(ctx, d, b)
	}
	reading.Stop()
	if err != nil {
		w.release(l.Block, d)
		return nil, w.failed(stageReading, err)
	}
	return d, nil
}

// readFetched reads a block after it has requested all pieces of files that the block needs.
func (w *remoteWorker) readFetched(ctx context.Context, d *blockData, b block.Block) error {
	t, err := w.ahead.task(ctx, b.Number)
	if err != nil {
		return err
	}
	defer t.release()
	return w.reader.read(ctx, d, b)
}

// Discard releases the arrays of a block that will not be computed.
func (w *remoteWorker) Discard(read any) {
	d := read.(*blockData)
	w.release(d.block.Number, d)
}

// release ends the work on a block.
func (w *remoteWorker) release(n int, d *blockData) {
	w.mu.Lock()
	delete(w.stages, n)
	w.mu.Unlock()
	if w.buffers != nil {
		w.buffers.Put(d)
	}
}

// attach attaches a block's arrays in shared memory.
func (w *remoteWorker) attach(l client.Lease) (*blockData, error) {
	var s sharedBlock
	if err := json.Unmarshal(l.Payload, &s); err != nil {
		return nil, fmt.Errorf("the places of the arrays of block %d can't be read: %w", l.Block, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.attached[s.Memory]
	if a == nil {
		var err error
		// The function may write to its inputs. Copy-on-write keeps that in this process, so that
		// another worker can repeat the block.
		if a, err = w.memory.Attach(s.Memory, shm.CopyOnWrite); err != nil {
			return nil, fmt.Errorf("the arrays of block %d: %w", l.Block, err)
		}
		w.attached[s.Memory] = a
	}
	raw, err := shm.Slice[uint8](a)
	if err != nil {
		return nil, err
	}
	if !dropsWritten {
		raw = slices.Clone(raw)
	}
	d, err := s.open(w.shared.files, w.shared.blocks.Overlap, w.shared.blocks.At(l.Block), raw)
	if err == nil && dropsWritten {
		d.shared, d.private = a, true
	}
	return d, err
}

// Compute runs the function on a block and encodes its results.
func (w *remoteWorker) Compute(ctx context.Context, place int, read any) (_ [][]byte, err error) {
	d, s := read.(*blockData), w.slots[place]
	n := d.block.Number
	defer func() {
		s.freeArrays()
		if w.buffers == nil && w.shared.expressions == nil { // expressions do not write to their inputs
			err = errors.Join(err, dropWritten(d.region))
		}
		w.release(n, d)
	}()
	if err := w.open(ctx, s); err != nil {
		return nil, err
	}
	b, err := s.compute(ctx, d)
	if err != nil {
		return nil, w.failed(stageComputing, err)
	}
	parts, a := [][]byte{nil}, answer{}
	for i, o := range w.shared.writers {
		_, rec, err := s.encode(b, i)
		if err != nil {
			return nil, w.failed(stageComputing, err)
		}
		w.applyCodec(o)
		parts = append(parts, rec.Meta)
		out := answerOutput{Type: o.Type, Bands: o.Bands, Bytes: len(rec.Meta)}
		if at, ok := s.sharedAt(i, rec.Data); ok {
			out.Shared, out.At = len(rec.Data), at
		} else {
			parts = append(parts, rec.Data)
			out.Bytes += len(rec.Data)
		}
		a.Outputs = append(a.Outputs, out)
	}
	if len(w.shared.writers) == 0 {
		for _, v := range b.extras[0].Values {
			a.Values = append(a.Values, len(v))
		}
		parts = append(parts, b.extras[0].Values...)
	}
	now := time.Now()
	w.mu.Lock()
	for _, i := range w.stages[n] {
		a.Intervals = append(a.Intervals, answerInterval{i.stage, i.lane, now.Sub(i.start), i.length})
	}
	w.mu.Unlock()
	text, err := json.Marshal(&a)
	if err != nil {
		return nil, err
	}
	s.head = append(binary.LittleEndian.AppendUint32(s.head[:0], uint32(len(text))), text...)
	parts[0] = s.head
	return parts, nil
}

// open sets up the state of a slot before its first block. The state's context is the worker's, not
// the block's.
func (w *remoteWorker) open(ctx context.Context, s *slot) error {
	if s.ready {
		return nil
	}
	life, end := context.WithCancel(w.life)
	inTime := context.AfterFunc(ctx, end) // cancel Setup if the block is canceled
	err := s.setup(life, WorkerInfo{Worker: w.number, Workers: w.workers, Slot: s.number})
	if err != nil {
		end()
		return w.failed(stageSetup, err)
	}
	s.ready, s.stop = true, end
	if inTime() {
		return nil
	}
	// The state's context has ended, so the next block gets a new state. Errors of this one are
	// reported by Close.
	_, err = w.close(s)
	w.mu.Lock()
	w.closing = errors.Join(w.closing, err)
	w.mu.Unlock()
	return context.Cause(ctx)
}

// close ends the state of a slot and returns its encoded value, if it has one. A panic becomes an
// error with its stack.
func (w *remoteWorker) close(s *slot) (encoded []byte, err error) {
	if !s.ready {
		return nil, nil
	}
	s.ready = false
	defer s.stop()
	value, err := s.end()
	if err == nil && w.givesValues && s.computed > 0 {
		encoded, err = w.shared.function.encodeWorkerValue(value, w.shared.abort)
	}
	if err != nil {
		return nil, w.failed(stageClosing, fmt.Errorf("closing worker %d: %w", w.number+1, err))
	}
	return encoded, nil
}

// abort ends the work when a function has ended its goroutine, which can't be stopped: package
// client reports the error that it panics with.
func (w *remoteWorker) abort(cause error) {
	stage := stageComputing
	var p *outcome.PanicError
	if errors.As(cause, &p) {
		cause = p
		switch p.Of {
		case "Setup":
			stage = stageSetup
		case "Close", "WorkerValues":
			stage = stageClosing
		}
	}
	panic(w.failed(stage, cause))
}

// failed returns an error that the coordinator can decode.
func (w *remoteWorker) failed(stage string, err error) error {
	return &workerError{err, stage, w.shared.function.sentinels()}
}

// Notify receives a note of the coordinator.
func (w *remoteWorker) Notify(note json.RawMessage) {
	var n workerNote
	if json.Unmarshal(note, &n) != nil {
		return // a lost note costs time only
	}
	w.mu.Lock()
	w.note = n
	w.mu.Unlock()
	for _, o := range w.shared.writers {
		w.applyCodec(o)
	}
}

// applyCodec makes a started output use the chosen coding.
func (w *remoteWorker) applyCodec(o *output.Writer) {
	w.mu.Lock()
	chosen, ok := w.note.Codings[o.Name]
	w.mu.Unlock()
	if ok {
		o.Follow(chosen)
	}
}

// Close ends the states of the function and closes all that is open. It returns the values of the
// states.
func (w *remoteWorker) Close() (values []byte, err error) {
	errs := []error{w.closing}
	for _, s := range w.slots {
		v, err := w.close(s)
		errs = append(errs, err)
		values = append(values, v...)
	}
	if size := int64(len(values)); size > w.maxValue {
		errs = append(errs, w.failed(stageClosing,
			fmt.Errorf("closing worker %d: its value has %d bytes, at most %d are allowed", w.number+1, size, w.maxValue)))
	}
	errs = append(errs, w.inputs.Close())
	for _, p := range []*shm.Pool{w.memory, w.results} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return values, errors.Join(errs...)
}
