package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"leat/internal/freelist"
	"leat/shm"
	"leat/timing"
)

// localWorkers compute blocks in goroutines of this process.
type localWorkers struct {
	shared  *computing
	feed    *feeder
	results *results
	tracker *Tracker
	count   int
	extra   atomic.Int64 // buffers that are not used again, see plan.ExtraBuffers
}

// run reads, computes and spools all blocks.
func (l *localWorkers) run(ctx context.Context) error {
	p := l.feed.plan
	buffers := freelist.New(p.Buffers, l.feed.reader.newBlock)
	if l.shared.function.Shared {
		var memory *shm.Pool
		var err error
		if buffers, memory, err = newBlocksOnDemand(l.feed.reader.inputs, p.Blocks, p.Buffers); err != nil {
			return err
		}
		defer memory.Close()
	}
	var g sync.WaitGroup
	begin := func(f func() error) {
		g.Go(func() {
			if err := f(); err != nil {
				l.shared.abort(err)
			}
		})
	}
	l.extra.Store(int64(p.ExtraBuffers))
	l.feed.loading = l.shared.function.Loading
	ready := l.feed.start(ctx, buffers, begin)
	for i := range l.count {
		begin(func() error { return l.work(ctx, i, ready, buffers) })
	}
	g.Wait()
	l.shared.timings.Gauge("blocks read ahead", 0)
	return context.Cause(ctx)
}

// work is one worker: it computes blocks until there are none left.
func (l *localWorkers) work(ctx context.Context, number int, ready <-chan *blockData,
	buffers *freelist.List[*blockData]) (err error) {
	w := newComputeState(l.shared, fmt.Sprintf("worker %d", number+1))
	if err := w.setup(ctx, WorkerInfo{Worker: number, Workers: l.count}); err != nil {
		return err
	}
	defer func() {
		value, cerr := w.end()
		if cerr != nil {
			err = errors.Join(err, localError(stageClosing, w.lane, nil, cerr))
		} else if w.computed > 0 {
			l.results.addWorker(workerValue{number, value})
		}
	}()
	var next *blockData // begun before it is computed
	for {
		d := next
		if d == nil {
			waiting := l.shared.timings.Start("waiting for input", w.lane, timing.NoBlock)
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
		}
		if err := ctx.Err(); err != nil { // select picks a random one of two that are ready
			return err
		}
		at := &l.tracker.local[number]
		at.block.Store(int64(d.block.Number))
		l.tracker.mark(d.block.Number, BlockHeld)
		next = w.begin(d, ready)
		b, err := l.compute(ctx, w, d)
		if err != nil {
			return err
		}
		// An output may be an input's array, so the inputs are released only now.
		w.freeArrays()
		if l.extra.Add(-1) < 0 {
			buffers.Put(d)
		}
		if err := l.results.add(b.Block, b.extras, b.emitted); err != nil {
			return err
		}
		at.block.Store(-1)
		at.done.Add(1)
	}
}

// compute computes a block and appends its records to the spools.
func (l *localWorkers) compute(ctx context.Context, w *computeState, d *blockData) (*Block, error) {
	b, err := w.compute(ctx, d)
	if err != nil {
		e := localError(stageComputing, w.lane, &b.Block, err)
		if l.shared.expressions != nil {
			e.Text = err.Error() // the message names the pixel, or the block is not the cause
		}
		return nil, e
	}
	for i, o := range l.shared.writers {
		e, rec, err := w.encode(b, i)
		if err != nil {
			return nil, err
		}
		if err := o.Spool.Add(e, b.Block, rec); err != nil {
			return nil, err
		}
	}
	return b, nil
}
