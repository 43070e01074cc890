package exec

import (
	"context"
	"fmt"
	"sync"

	"leat/internal/freelist"

	"leat/apply/internal/plan"
	"leat/block"
	"leat/timing"
)

// feeder reads the blocks that are still to be computed, ahead of the workers.
type feeder struct {
	plan    *plan.Plan
	todo    *remaining
	reader  *blockReader
	staging *staging
	results *results // bound how far ahead
	tracker *Tracker
	timings *timing.Recorder
	loading <-chan struct{} // see Function.Loading
}

// start reads the blocks into buffers, in goroutines that begin starts. It returns a queue that is
// closed after the last block.
func (f *feeder) start(ctx context.Context, buffers *freelist.List[*blockData],
	begin func(func() error)) <-chan *blockData {
	ahead := newPrefetcher(f.staging.pieces, f.plan.Blocks, f.plan.AheadLimit())
	tasks := ahead.tasks()
	begin(func() error {
		defer close(tasks)
		for n := range f.todo.all() {
			if err := f.results.merger.waitFor(ctx, n); err != nil {
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
	ready := make(chan *blockData, f.plan.Buffers)
	var readers sync.WaitGroup
	for i := range f.plan.Readers {
		readers.Add(1)
		begin(func() error {
			defer readers.Done()
			if i > 0 && i == f.plan.Readers-1 && f.loading != nil { // leave a core to what loads the function
				select {
				case <-f.loading:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return f.readAll(ctx, readerName(i), buffers, tasks, ready)
		})
	}
	begin(func() error {
		readers.Wait()
		close(ready)
		return nil
	})
	return ready
}

// readAll is one reader: it reads the blocks of tasks.
func (f *feeder) readAll(ctx context.Context, lane string, buffers *freelist.List[*blockData], tasks <-chan task,
	ready chan<- *blockData) error {
	for {
		waiting := f.timings.Start("waiting to read", lane, timing.NoBlock)
		d, err := buffers.Get(ctx)
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
			buffers.Put(d)
			f.help(lane)
			return ctx.Err()
		}
		b := f.plan.Blocks.At(t.number)
		err = f.read(ctx, lane, d, b)
		t.release()
		if err == nil {
			ready <- d
			f.timings.Gauge("blocks read ahead", int64(len(ready)))
			err = f.done(lane, b)
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			e := localError(stageReading, "", &b, err)
			e.Text = err.Error() // the message names the file
			return e
		}
	}
}

// help reads files of the blocks that other readers are reading.
func (f *feeder) help(lane string) {
	for r := f.reader.shared.join(); r != nil; r = f.reader.shared.join() {
		reading := f.timings.Start("reading", lane, r.number)
		r.work()
		reading.Stop()
		r.helpers.Done()
	}
}

// read reads a block, after waiting for the files it needs to be staged.
func (f *feeder) read(ctx context.Context, lane string, d *blockData, b block.Block) error {
	f.tracker.mark(b.Number, BlockRead)
	err := f.stage(lane, b, func() error { return f.staging.wait(ctx, b) })
	if err != nil {
		return err
	}
	reading := f.timings.Start("reading", lane, b.Number)
	defer reading.Stop()
	return f.reader.read(ctx, d, b)
}

// done ends the use of the files that no later block needs. The block can be computed meanwhile.
func (f *feeder) done(lane string, b block.Block) error {
	return f.stage(lane, b, func() error { return f.staging.done(b) })
}

// stage calls wait, which may wait for files that are being staged.
func (f *feeder) stage(lane string, b block.Block, wait func() error) error {
	if len(f.staging.whole) == 0 {
		return wait()
	}
	staging := f.timings.Start("waiting for staging", lane, b.Number)
	defer staging.Stop()
	if lane == firstReader {
		f.tracker.at("staging")
		defer f.tracker.at("blocks")
	}
	return wait()
}

func readerName(i int) string { return fmt.Sprintf("reader %d", i+1) }

// firstReader shows in the status that all readers wait.
var firstReader = readerName(0)
