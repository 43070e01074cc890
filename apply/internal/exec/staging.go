package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/raster"
)

// staging is how the remote files of a run get to where blocks read them.
type staging struct {
	blocks block.Plan
	whole  []*resolve.File // staged as a whole before blocks read them
	pieces []*resolve.File // read piece by piece
	// pending is how many blocks have yet to read a remote file; empty in a worker process.
	pending map[*resolve.File]*atomic.Int64
	early   bool // blocks read what has arrived of a file that is being staged
}

// newStaging returns the staging of files that are being staged already.
func newStaging(in *resolve.Inputs, blocks block.Plan) *staging {
	s := &staging{blocks: blocks, pending: map[*resolve.File]*atomic.Int64{}}
	for _, f := range in.Files {
		switch f.Mode {
		case jobspec.ReadStaged:
			s.whole = append(s.whole, f)
		case jobspec.ReadPieces:
			s.pieces = append(s.pieces, f)
		}
	}
	return s
}

// startStaging starts to stage the files that are read as a whole, in the order in which blocks
// need them, and counts the blocks that need each remote file.
func startStaging(in *resolve.Inputs, todo *remaining) (*staging, error) {
	s := newStaging(in, todo.blocks)
	s.early = true                   // only the run itself calls Done, which completes the copy
	first := map[*resolve.File]int{} // block that needs the file
	for _, f := range in.Files {
		if f.Remote == nil || len(f.Layers) == 0 {
			continue
		}
		for n := range todo.touching(f.Extent()) {
			first[f] = n
			s.pending[f] = new(atomic.Int64)
			s.pending[f].Store(int64(todo.countTouching(f.Extent())))
			break
		}
	}
	needed := slices.DeleteFunc(slices.Clone(s.whole), func(f *resolve.File) bool { return s.pending[f] == nil })
	slices.SortStableFunc(needed, func(a, b *resolve.File) int { return first[a] - first[b] })
	for _, f := range needed {
		ok, err := f.Remote.Stage()
		if err != nil {
			return nil, fmt.Errorf("input %s: %s can't be staged: %w", f.Name, f.Path, err)
		}
		if !ok {
			s.whole = slices.DeleteFunc(s.whole, func(w *resolve.File) bool { return w == f })
			s.pieces = append(s.pieces, f)
		}
	}
	return s, nil
}

// wait waits until what a block needs of the files is staged.
func (s *staging) wait(ctx context.Context, b block.Block) error {
	for _, f := range s.whole {
		if f.Needed(b, s.blocks) {
			if err := s.waitFile(ctx, f, b); err != nil {
				return fmt.Errorf("input %s: %w", f.Name, err)
			}
		}
	}
	return nil
}

func (s *staging) waitFile(ctx context.Context, f *resolve.File, b block.Block) error {
	if w, ok := f.Remote.(resolve.RangeWaiter); ok && s.early && f.Warp == nil {
		return w.WaitRanges(ctx, func() ([]raster.Range, error) {
			return f.RangesOf(ctx, b.Window.Grow(s.blocks.Overlap))
		})
	}
	return f.Remote.Wait(ctx)
}

// done calls Done of the remote files that no later block needs.
func (s *staging) done(b block.Block) error {
	var errs []error
	for f, n := range s.pending {
		if f.Needed(b, s.blocks) && n.Add(-1) == 0 {
			errs = append(errs, f.Remote.Done())
		}
	}
	return errors.Join(errs...)
}
