package apply

import (
	"context"
	"errors"
	"maps"
	"slices"

	"leat/apply/internal/spool"
)

// ReplacedBlocks are blocks of an earlier run that a run replaces because Job.Resume is false.
type ReplacedBlocks struct {
	Paths         []string // of the unfinished outputs
	Blocks, Total int      // Blocks of Total are in all of them
	// Changes are the reasons why Job.Resume could not use the blocks; empty if it could.
	Changes []string
}

// findReplaced looks for blocks that a run of the same outputs kept and this one does not use.
func (r *run) findReplaced(ctx context.Context) error {
	if r.job.Resume {
		return nil
	}
	var common map[uint64]bool
	found := &ReplacedBlocks{}
	saved := make([]*savedRun, len(r.outs))
	for i, o := range r.outs {
		path := o.Spec.SpoolPath()
		h, err := openSaved(path)
		if err != nil || h == nil {
			continue
		}
		saved[i] = h
		blocks, err := spool.Blocks(ctx, path, h.header)
		if err != nil {
			return err
		}
		if common == nil {
			common = blocks
		}
		maps.DeleteFunc(common, func(n uint64, _ bool) bool { return !blocks[n] })
		found.Paths, found.Total = append(found.Paths, path), h.Blocks
	}
	if found.Blocks = len(common); found.Blocks == 0 {
		return nil
	}
	var refused *ResumeError
	switch err := r.checkMissing(saved); {
	case errors.As(err, &refused):
		found.Changes = refused.Changes
	case err != nil:
		return err
	case slices.Contains(saved, nil): // empty files: a resumed run would start over
		return nil
	case !r.job.resumable():
		found.Changes = []string{"the job has Merge and no codec for the emitted values (Job.Emits)"}
	default:
		changes, err := r.compareEarlier(saved, true)
		if errors.As(err, &refused) {
			changes = []string{refused.Err.Error()}
		} else if err != nil {
			return err
		}
		found.Changes = changes
	}
	r.plan.Replaced = found
	return nil
}
