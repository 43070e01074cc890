package apply

import (
	"encoding/json"
	"errors"
	"iter"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/block"
)

// IncompleteError is returned when a run failed and kept its finished blocks. A run of the same job
// with Job.Resume continues from them, one without it starts over, and [Discard] removes them. The
// text is that of Err, which says why the run failed.
type IncompleteError struct {
	Err   error
	Paths []string // of the unfinished outputs
	Bytes int64    // size of these files
	// Done of Total blocks are finished; Done is -1 if the run failed before they were counted.
	Done, Total int
}

func (e *IncompleteError) Error() string { return e.Err.Error() }

func (e *IncompleteError) Unwrap() error { return e.Err }

// startWriters makes the writers of the outputs.
func (r *run) startWriters() {
	for _, o := range r.outs {
		r.writers = append(r.writers, output.NewWriter(o, output.Options{Grid: r.plan.Grid, Blocks: r.plan.Blocks,
			BudgetBytes: r.plan.BudgetBytes, Workers: r.plan.Workers, Timings: r.timings, Log: r.log,
			Start: func(w *output.Writer) error {
				if r.continues { // the spool has a header
					return nil
				}
				return r.startSpool(w)
			}}))
	}
}

// openSpools opens and locks the spools of all outputs. Their contents from an earlier run stay
// until clearSpools.
func (r *run) openSpools() error {
	for _, o := range r.writers {
		var err error
		if o.File, err = spool.Open(o.Spec.Target()); err != nil {
			return err
		}
	}
	return nil
}

// clearSpools clears the spools of all outputs before the first header is written to one of them,
// so that a run which starts over and fails before that leaves an earlier run's blocks intact. It
// is safe for concurrent use.
func (r *run) clearSpools() error {
	r.clearOnce.Do(func() {
		for _, o := range r.writers {
			if r.clearErr = o.File.Clear(); r.clearErr != nil {
				return
			}
		}
		r.cleared = true
	})
	return r.clearErr
}

// endSpools removes the spools, or keeps them if the run failed and resuming would save a block. It
// returns the run's error.
func (r *run) endSpools(err error) error {
	left := &IncompleteError{Err: err, Done: r.done, Total: r.plan.Blocks.Count()}
	if !r.continues && !r.cleared && r.plan.Replaced != nil || r.continues && r.before == nil {
		left.Done = -1
	}
	// Finished files that could not be published are kept as they are.
	keep := err != nil && left.Done != 0 && r.res.Values.Resumable() && !errors.As(err,
		new(*UnpublishedError)) && !resolve.IsInputChanged(err)
	var spools []*spool.File
	for _, o := range r.writers {
		if o.File != nil {
			spools = append(spools, o.File)
			o.File = nil
		}
	}
	if keep && (r.plan.Replaced == nil || r.cleared || len(r.plan.Replaced.Changes) == 0) {
		for _, s := range spools {
			if st, serr := s.Stat(); serr == nil && st.Size() > 0 {
				left.Paths = append(left.Paths, s.Path())
				left.Bytes += st.Size()
			}
		}
	}
	end := spool.Remove
	if keep || err != nil && !r.continues && !r.cleared {
		end = spool.Leave
	}
	if eerr := end(spools); eerr != nil {
		r.log.Warn("ending an unfinished output", "error", eerr)
	}
	if len(left.Paths) == 0 {
		return err
	}
	return left
}

// countBlocks returns how many of the blocks that are still to be read touch a rectangle of the
// grid.
func (r *run) countBlocks(w block.Window) int {
	n := 0
	if r.resumed == 0 {
		return r.plan.Blocks.CountIntersecting(w)
	}
	for range r.reads(w) {
		n++
	}
	return n
}

// reads yields the blocks that are still to be read and that, margin included, touch a rectangle of
// the grid.
func (r *run) reads(w block.Window) iter.Seq[int] {
	p := r.plan.Blocks
	from := func(at, step, count int) int { return min(max(0, at-p.Overlap)/step, count-1) }
	return func(yield func(int) bool) {
		for row := from(w.Row, p.WindowHeight,
			p.Rows()); row < p.Rows() && row*p.WindowHeight-p.Overlap < w.Row+w.Height; row++ {
			for col := from(w.Col, p.WindowWidth,
				p.Cols()); col < p.Cols() && col*p.WindowWidth-p.Overlap < w.Col+w.Width; col++ {
				n := row*p.Cols() + col
				if !r.isDone(n) && !p.At(n).Window.Grow(p.Overlap).Intersect(w).Empty() && !yield(n) {
					return
				}
			}
		}
	}
}

// startMerge starts the run's merger.
func (r *run) startMerge() error {
	if r.job.Merge == nil {
		return nil
	}
	r.merge.start()
	return r.merge.begin(r.job.Merge)
}

// startSpool writes the header of an output's spool.
func (r *run) startSpool(w *output.Writer) error {
	if err := r.clearSpools(); err != nil {
		return err
	}
	d, err := r.decided.Describe(r.res, &w.Output, w.Type, w.Bands, w.Nodata)
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return w.File.Start(text)
}
