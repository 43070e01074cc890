package exec

import (
	"fmt"
	"sync"

	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/expr"
	"leat/internal/fault"
)

// results takes the results of blocks other than pixels: it sums what expressions counted, and
// merges emitted values in the order of blocks.
type results struct {
	tracker *Tracker
	merge   func(block int, value any) error // may be nil

	mu      sync.Mutex
	counts  []Counts // by output; nil for a function
	merger  merger
	workers []workerValue
}

// Counts are what the expression of an output counted.
type Counts struct {
	expr.Counts
	First *block.Window // pixel of the first nodata collision: a window of width and height 1
}

func newResults(job *resolve.Job, merge func(int, any) error, tracker *Tracker) *results {
	r := &results{tracker: tracker, merge: merge}
	if job.Programs != nil {
		r.counts = make([]Counts, len(job.Outputs))
	}
	return r
}

// start merges the values of an earlier run up to the first block that is still to be computed.
func (r *results) start() error {
	if r.merge == nil {
		return nil
	}
	r.merger.start()
	return r.merger.begin(r.merge)
}

// add takes the results of a block that is spooled, by output.
func (r *results) add(b block.Block, extras []spool.Extra, emitted []any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.finished(b)
	r.sum(extras)
	if r.merge != nil {
		if err := r.merger.add(b.Number, emitted, r.merge); err != nil {
			return err
		}
	}
	fault.Point("apply.block-done")
	return nil
}

// sum adds the counts of a block. The caller holds r.mu, or no block is computed yet.
func (r *results) sum(extras []spool.Extra) {
	for i := range r.counts {
		t, x := &r.counts[i], &extras[i]
		c := &x.Counts
		t.Pixels += c.Pixels
		t.Invalid += c.Invalid
		t.NaN += c.NaN
		t.Inf += c.Inf
		t.Saturated += c.Saturated
		t.NodataCollision += c.NodataCollision
		if w := (block.Window{Col: x.Col, Row: x.Row, Width: 1, Height: 1}); c.NodataCollision > 0 &&
			(t.First == nil || w.Row < t.First.Row || w.Row == t.First.Row && w.Col < t.First.Col) {
			t.First = &w
		}
	}
}

// checkAll returns an error unless all blocks of the run are done.
func (r *results) checkAll(total int) error {
	if done, _, _ := r.tracker.progress(); done != total {
		return fmt.Errorf("%d of %d blocks were lost", total-done, total)
	}
	return nil
}
