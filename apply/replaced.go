package apply

import (
	"context"
	"errors"
	"maps"

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
	var have, lack []*output
	var common map[uint64]bool
	found := &ReplacedBlocks{}
	for _, o := range r.outs {
		path := o.spec.spoolPath()
		h, err := openSaved(path)
		if err != nil || h == nil {
			lack = append(lack, o)
			continue
		}
		o.resume = h
		have = append(have, o)
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
	defer func() {
		for _, o := range have {
			o.resume = nil
		}
	}()
	if found.Blocks = len(common); found.Blocks == 0 {
		return nil
	}
	var refused *ResumeError
	switch err := r.checkMissing(have, lack); {
	case errors.As(err, &refused):
		found.Changes = refused.Changes
	case err != nil:
		return err
	case len(lack) > 0: // empty files: a resumed run would start over
		return nil
	case !r.job.resumable():
		found.Changes = []string{"the job has Merge and no codec for the emitted values (Job.Emits)"}
	default:
		changes, err := r.compareEarlier(true)
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
