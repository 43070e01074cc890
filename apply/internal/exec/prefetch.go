package exec

import (
	"context"
	"fmt"
	"leat/internal/driver"

	"golang.org/x/sync/semaphore"

	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/raster"
)

// aheadBlocks bounds the blocks whose pieces are fetched ahead, however small they are.
const aheadBlocks = 256

// task is a block to read.
type task struct {
	number  int
	release func() // releases what was fetched for it
}

// prefetcher fetches, in the order of blocks, what they need of files that are read piece by piece.
// It makes more requests at once than there are readers, to hide their latency.
type prefetcher struct {
	blocks block.Plan
	files  []*prefetchFile
	bytes  *semaphore.Weighted
	limit  int64
}

type prefetchFile struct {
	f *resolve.File
	// asked contains the pieces that were fetched for an earlier block, by offset: decoded tiles
	// that several blocks need are cached. nil if no blocks share tiles.
	asked map[int64]struct{}
}

func newPrefetcher(files []*resolve.File, p *plan.Plan) *prefetcher {
	a := &prefetcher{blocks: p.Blocks, limit: p.AheadBytes}
	for _, f := range files {
		af := &prefetchFile{f: f}
		if p.Shared(f) {
			af.asked = map[int64]struct{}{}
		}
		a.files = append(a.files, af)
	}
	if a.limit == 0 { // the plan was to stage them
		a.limit = plan.AheadBytes(p.BudgetBytes)
	}
	if len(a.files) > 0 {
		a.bytes = semaphore.NewWeighted(a.limit)
	}
	return a
}

// tasks returns the queue of blocks to read. With nothing to fetch it is unbuffered.
func (a *prefetcher) tasks() chan task {
	if len(a.files) == 0 {
		return make(chan task)
	}
	return make(chan task, aheadBlocks)
}

// task starts to fetch what a block needs, once the pieces in memory leave enough space.
func (a *prefetcher) task(ctx context.Context, n int) (task, error) {
	if len(a.files) == 0 {
		return task{n, func() {}}, nil
	}
	p := a.blocks
	w := p.At(n).Window.Grow(p.Overlap)
	lists := make([][]raster.Range, len(a.files))
	var total int64
	for i, af := range a.files {
		list, err := af.f.RangesOf(ctx, w)
		if err != nil {
			return task{}, fmt.Errorf("reading block %d of %s: %w", n, af.f.Path, err)
		}
		if af.asked != nil {
			list = af.first(list)
		}
		lists[i] = list
		total += driver.RangeBytes(list)
	}
	weight := min(total, a.limit)
	if err := a.bytes.Acquire(ctx, weight); err != nil {
		return task{}, err
	}
	var releases []func()
	for i, af := range a.files {
		if len(lists[i]) > 0 {
			releases = append(releases, af.f.Remote.Fetch(lists[i], nil))
		}
	}
	return task{n, func() {
		for _, release := range releases {
			release()
		}
		a.bytes.Release(weight)
	}}, nil
}

// first returns the pieces that were not fetched for an earlier block, and records them.
func (af *prefetchFile) first(list []raster.Range) []raster.Range {
	out := list[:0]
	for _, r := range list {
		if _, ok := af.asked[r.Offset]; !ok {
			af.asked[r.Offset] = struct{}{}
			out = append(out, r)
		}
	}
	return out
}
