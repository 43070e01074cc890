package plan

import (
	"context"
	"errors"
	"maps"
	"slices"

	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
)

// findReplaced looks for blocks that a run of the same outputs kept and this one does not use.
func findReplaced(ctx context.Context, job *resolve.Job, p *Plan) (*outcome.ReplacedBlocks, error) {
	if job.Values.Resume {
		return nil, nil
	}
	var common map[uint64]bool
	found := &outcome.ReplacedBlocks{}
	saved := make([]*Saved, len(job.Outputs))
	for i, o := range job.Outputs {
		path := o.Spec.SpoolPath()
		h, err := openSaved(path)
		if err != nil || h == nil {
			continue
		}
		saved[i] = h
		blocks, err := spool.Blocks(ctx, path, h.Header)
		if err != nil {
			return nil, err
		}
		if blocks == nil {
			return nil, nil
		}
		if common == nil {
			common = blocks
		}
		maps.DeleteFunc(common, func(n uint64, _ bool) bool { return !blocks[n] })
		found.Paths, found.Total = append(found.Paths, path), h.Header.Blocks-h.Header.Skipped
	}
	if found.Blocks = len(common); found.Blocks == 0 {
		return nil, nil
	}
	var refused *outcome.ResumeError
	switch err := checkMissing(job, saved); {
	case errors.As(err, &refused):
		found.Changes = refused.Changes
	case err != nil:
		return nil, err
	case slices.Contains(saved, nil): // empty files: a resumed run would start over
		return nil, nil
	case job.Values.Function.Loaded().MergesWorkers:
		found.Changes = []string{"the job merges values of workers (Job.MergeWorkers)"}
	case !job.Values.Resumable():
		found.Changes = []string{"the job has Merge and no codec for the emitted values (Job.Emits)"}
	default:
		changes, err := compare(job, p, saved, true)
		if errors.As(err, &refused) {
			changes = []string{refused.Err.Error()}
		} else if err != nil {
			return nil, err
		}
		found.Changes = changes
	}
	return found, nil
}
