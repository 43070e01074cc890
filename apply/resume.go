package apply

import (
	"context"
	"fmt"
	"slices"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/spool"
	"leat/internal/units"
)

// resume restores the contents of the locked spools: blocks with all their results, the chosen
// coding, and overview tiles.
func (r *run) resume(ctx context.Context) error {
	if !r.continues {
		return nil
	}
	defer r.timings.Start("resuming", "main", -1).Stop()
	saved := make([]*spool.Resume, len(r.outs))
	for i, w := range r.writers {
		var err error
		if saved[i], err = r.scanSpool(ctx, w, r.decided.Earlier.Saved[i]); err != nil {
			return err
		}
	}
	// A block is done if every output has it. Set the run's fields only after all blocks are
	// restored: if that fails, the spools keep their blocks, and their number is unknown.
	before, done, pixels := make([]bool, r.plan.Blocks.Count()), 0, int64(0)
	extras := make([]spool.Extra, len(r.outs))
	for n := range before {
		before[n] = !slices.ContainsFunc(saved, func(s *spool.Resume) bool { return !s.Has(n) })
		if !before[n] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b := r.plan.Blocks.At(n)
		for i := range r.outs {
			var err error
			if extras[i], err = saved[i].Restore(b); err != nil {
				return err
			}
		}
		if r.exprs != nil {
			r.exprs.add(extras)
		}
		done++
		pixels += b.Window.Pixels()
	}
	for _, s := range saved {
		if err := s.RestoreTiles(); err != nil {
			return err
		}
	}
	r.before = before
	r.mu.Lock()
	r.done, r.resumed, r.pixels = done, done, pixels
	r.mu.Unlock()
	if r.job.Merge != nil && len(saved) > 0 {
		r.merge.before = func(n int) ([]any, bool, error) { return r.savedValues(saved[0], n) }
	}
	r.notes = append(r.notes, fmt.Sprintf("%d of %s were taken from the unfinished output", r.resumed,
		units.Count(len(r.before), "block")))
	return nil
}

// scanSpool starts the output with the type of the earlier run and finds the records in its spool.
func (r *run) scanSpool(ctx context.Context, w *output.Writer, saved *plan.Saved) (*spool.Resume, error) {
	if err := w.File.Continue(saved.Header); err != nil {
		return nil, err
	}
	t, bands, _, err := saved.TypeOf(&w.Output, r.exprs != nil)
	if err != nil {
		return nil, fmt.Errorf("output %s: %w", w.Name, err)
	}
	if err := w.Begin(0, t, bands); err != nil {
		return nil, err
	}
	return w.Spool.Scan(ctx, saved.Header)
}

// savedValues returns the values that block n emitted in the earlier run, and false if it was not
// part of it.
func (r *run) savedValues(s *spool.Resume, n int) ([]any, bool, error) {
	if n >= len(r.before) || !r.before[n] {
		return nil, false, nil
	}
	list, err := s.Values(n)
	if err != nil {
		return nil, false, err
	}
	values, err := r.job.decodeValues(list)
	if err != nil {
		return nil, false, fmt.Errorf("block %d: %w", n, err)
	}
	return values, true, nil
}
