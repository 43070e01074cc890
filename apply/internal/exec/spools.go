package exec

import (
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"leat/apply/internal/output"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/timing"
)

// spools are the unfinished outputs of a run.
type spools struct {
	job     *resolve.Job
	plan    *plan.Plan
	writers []*output.Writer
	log     *slog.Logger

	clearOnce sync.Once // see clear
	cleared   bool
	clearErr  error
}

// newSpools makes the writers of the outputs.
func newSpools(job *resolve.Job, p *plan.Plan, timings *timing.Recorder, log *slog.Logger) *spools {
	s := &spools{job: job, plan: p, log: log}
	for _, o := range job.Outputs {
		s.writers = append(s.writers, output.NewWriter(o, output.Options{Grid: p.Grid, Blocks: p.Blocks,
			BudgetBytes: p.BudgetBytes, Workers: p.Workers, Timings: timings, Log: log, Start: s.start}))
	}
	return s
}

// open opens and locks the spools of all outputs. Their contents from an earlier run stay
// until clear.
func (s *spools) open() error {
	for _, o := range s.writers {
		var err error
		if o.File, err = spool.Open(o.Spec.Target()); err != nil {
			return err
		}
	}
	return nil
}

// clear clears the spools of all outputs before the first header is written to one of them,
// so that a run which starts over and fails before that leaves an earlier run's blocks intact. It
// is safe for concurrent use.
func (s *spools) clear() error {
	s.clearOnce.Do(func() {
		for _, o := range s.writers {
			if s.clearErr = o.File.Clear(); s.clearErr != nil {
				return
			}
		}
		s.cleared = true
	})
	return s.clearErr
}

// end removes the spools, or keeps them if the run failed and resuming would save a block. It
// returns the run's error. counted reports whether the blocks of an earlier run were counted.
func (s *spools) end(err error, tracker *Tracker, counted bool) error {
	done, _, _ := tracker.progress()
	left := &outcome.IncompleteError{Err: err, Done: done, Total: s.plan.ComputedBlocks()}
	continues, replaced := s.plan.Earlier != nil, s.plan.Replaced
	if !continues && !s.cleared && replaced != nil || continues && !counted {
		left.Done = -1
	}
	// Finished files that could not be published are kept as they are.
	keep := err != nil && left.Done != 0 && s.job.Values.Resumable() && !errors.As(err,
		new(*outcome.UnpublishedError)) && !resolve.IsInputChanged(err)
	var files []*spool.File
	for _, o := range s.writers {
		if o.File != nil {
			files = append(files, o.File)
			o.File = nil
		}
	}
	if keep && (replaced == nil || s.cleared || len(replaced.Changes) == 0) {
		for _, f := range files {
			if st, serr := f.Stat(); serr == nil && st.Size() > 0 {
				left.Paths = append(left.Paths, f.Path())
				left.Bytes += st.Size()
			}
		}
	}
	end := spool.Remove
	if keep || err != nil && !continues && !s.cleared {
		end = spool.Leave
	}
	if eerr := end(files); eerr != nil {
		s.log.Warn("closing unfinished output failed", "error", eerr)
	}
	if len(left.Paths) == 0 {
		return err
	}
	return left
}

// start writes the header of an output's spool, unless the run continues an earlier one.
func (s *spools) start(w *output.Writer) error {
	if s.plan.Earlier != nil { // the spool has a header
		return nil
	}
	if err := s.clear(); err != nil {
		return err
	}
	d, err := s.plan.Describe(s.job, &w.Output, w.Type, w.Bands, w.Nodata)
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return w.File.Start(text)
}
