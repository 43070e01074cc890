package apply

import (
	"errors"
	"iter"

	"leat/block"
)

// UnfinishedError tells that a run failed and that what it had done is kept: a run of the same job with Job.Resume goes on from there, one without it
// starts anew, and [Discard] removes it. Its text is that of Err, why the run failed.
type UnfinishedError struct {
	Err   error
	Paths []string // of the unfinished outputs
	Bytes int64    // that they take
	// Done of Total blocks are in them; Done is -1 where the run failed before they were counted.
	Done, Total int
}

func (e *UnfinishedError) Error() string { return e.Err.Error() }

func (e *UnfinishedError) Unwrap() error { return e.Err }

// resumable reports whether what a run of the job leaves can be gone on from.
func (j *Job) resumable() bool { return len(j.Outputs) > 0 && (j.Merge == nil || j.Emits != nil) }

// openSpools opens and locks the spools of all outputs.
func (r *run) openSpools() error {
	for _, o := range r.outs {
		if err := o.openSpool(r.continues); err != nil {
			return err
		}
	}
	return nil
}

// endSpools removes the spools, or leaves them where the run failed and a block can be spared by going on from them. It returns the run's error.
func (r *run) endSpools(err error) error {
	left := &UnfinishedError{Err: err, Done: r.done, Total: r.plan.Blocks.Count()}
	if r.continues && r.before == nil {
		left.Done = -1
	}
	// Finished files that could not get their names are kept as they are.
	keep := err != nil && left.Done != 0 && r.job.resumable() && !errors.As(err, new(*KeptError)) && !isChangedInput(err)
	for _, o := range r.outs {
		s := o.spool
		if s == nil {
			continue
		}
		o.spool = nil
		end := s.remove
		if keep {
			end = s.leave
			if st, serr := s.f.Stat(); serr == nil && st.Size() > 0 {
				left.Paths = append(left.Paths, s.path)
				left.Bytes += st.Size()
			}
		}
		if eerr := end(); eerr != nil {
			r.log.Warn("ending an unfinished output", "output", o.name, "error", eerr)
		}
	}
	if len(left.Paths) == 0 {
		return err
	}
	return left
}

// touching is in how many of the reads that are still to be done a rectangle of the grid takes part.
func (r *run) touching(w block.Window) int {
	n := 0
	if r.resumed == 0 {
		return r.plan.Blocks.Touching(w)
	}
	for range r.reads(w) {
		n++
	}
	return n
}

// reads are the blocks that are still to be read and, with their margins, have pixels of a rectangle of the grid.
func (r *run) reads(w block.Window) iter.Seq[int] {
	p := r.plan.Blocks
	from := func(at, step, count int) int { return min(max(0, at-p.Overlap)/step, count-1) }
	return func(yield func(int) bool) {
		for row := from(w.Row, p.WindowHeight, p.Down()); row < p.Down() && row*p.WindowHeight-p.Overlap < w.Row+w.Height; row++ {
			for col := from(w.Col, p.WindowWidth, p.Across()); col < p.Across() && col*p.WindowWidth-p.Overlap < w.Col+w.Width; col++ {
				n := row*p.Across() + col
				if !r.isDone(n) && !p.At(n).Window.Grow(p.Overlap).Intersect(w).Empty() && !yield(n) {
					return
				}
			}
		}
	}
}

// startMerge makes the run's merger ready.
func (r *run) startMerge() error {
	if r.job.Merge == nil {
		return nil
	}
	r.merge.start()
	return r.merge.begin(r.job.Merge)
}
