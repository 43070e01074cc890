package exec

import (
	"context"
	"fmt"
	"slices"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/units"
	"leat/timing"
)

// resume restores the contents of the locked spools of an earlier run, if there is one: blocks with
// all their results, the chosen coding, and overview tiles. It returns the blocks that are still to
// be computed, and adds a note to res.
func resume(ctx context.Context, o *Options, writers []*output.Writer, results *results,
	res *Result) (*remaining, error) {
	blocks, earlier, skips := o.Plan.Blocks, o.Plan.Earlier, o.Plan.Skipped
	if skips != nil {
		results.merger.before = func(n int) ([]any, bool, error) { return nil, n < len(skips) && skips[n], nil }
	}
	if earlier == nil {
		return newRemaining(blocks, nil, skips), nil
	}
	defer o.Timings.Start("resuming", "main", timing.NoBlock).Stop()
	saved := make([]*spool.Resume, len(writers))
	for i, w := range writers {
		var err error
		if saved[i], err = scanSpool(ctx, w, earlier.Saved[i], o.Job.Programs != nil); err != nil {
			return nil, err
		}
	}
	// A block is done if every output has it. Count the blocks only after all are restored: if that
	// fails, the spools keep their blocks, and their number is unknown.
	before, done, pixels := make([]bool, blocks.Count()), 0, int64(0)
	extras := make([]spool.Extra, len(writers))
	for n := range before {
		before[n] = !slices.ContainsFunc(saved, func(s *spool.Resume) bool { return !s.Has(n) })
		if !before[n] || skips != nil && skips[n] {
			before[n] = false
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		b := blocks.At(n)
		for i := range writers {
			var err error
			if extras[i], err = saved[i].Restore(b); err != nil {
				return nil, err
			}
		}
		results.sum(extras)
		done++
		pixels += b.Window.Pixels()
	}
	for _, s := range saved {
		if err := s.RestoreTiles(); err != nil {
			return nil, err
		}
	}
	todo := newRemaining(blocks, before, skips)
	o.Tracker.resume(done, pixels)
	results.merger.before = func(n int) ([]any, bool, error) {
		if n >= len(before) || !before[n] {
			return nil, n < len(skips) && skips[n], nil
		}
		return savedValues(saved[0], n, &o.Function)
	}
	res.Notes = append(res.Notes, outcome.Note{Text: fmt.Sprintf("%d of %s were taken from the unfinished output",
		done, units.Count(o.Plan.ComputedBlocks(), "block"))})
	return todo, nil
}

// scanSpool starts the output with the type of the earlier run and finds the records in its spool.
func scanSpool(ctx context.Context, w *output.Writer, saved *plan.Saved, expressions bool) (*spool.Resume, error) {
	if err := w.File.Continue(saved.Header); err != nil {
		return nil, err
	}
	t, bands, _, err := saved.TypeOf(&w.Output, expressions)
	if err != nil {
		return nil, fmt.Errorf("output %s: %w", w.Name, err)
	}
	if err := w.Begin(0, t, bands); err != nil {
		return nil, err
	}
	return w.Spool.Scan(ctx, saved.Header)
}

// savedValues returns the values that block n emitted in the earlier run.
func savedValues(s *spool.Resume, n int, f *Function) ([]any, bool, error) {
	list, err := s.Values(n)
	if err != nil {
		return nil, false, err
	}
	values, err := f.decodeValues(list)
	if err != nil {
		return nil, false, fmt.Errorf("block %d: %w", n, err)
	}
	return values, true, nil
}
