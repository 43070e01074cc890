package exec

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/driver"
	"leat/raster"
)

// aheadBlocks bounds the blocks whose pieces are fetched ahead, however small they are.
const aheadBlocks = 256

// task is a block to read.
type task struct {
	number  int
	release func() // releases what was fetched for it
}

// prefetcher fetches what blocks need of files that are read piece by piece. It makes more requests
// at once than there are readers, to hide their latency.
type prefetcher struct {
	blocks block.Plan
	files  []*prefetchFile
	bytes  *semaphore.Weighted
	limit  int64

	mu sync.Mutex // guards prefetchFile.asked
}

type prefetchFile struct {
	f *resolve.File
	// asked contains the pieces that were fetched for an earlier block, by offset: decoded tiles
	// that several blocks need are cached. nil if no blocks share tiles.
	asked map[int64]struct{}
}

// newPrefetcher returns a prefetcher that holds at most limit bytes of pieces, but always those of
// one block.
func newPrefetcher(files []*resolve.File, blocks block.Plan, limit int64) *prefetcher {
	a := &prefetcher{blocks: blocks, limit: limit}
	for _, f := range files {
		af := &prefetchFile{f: f}
		if plan.Shared(f, blocks) {
			af.asked = map[int64]struct{}{}
		}
		a.files = append(a.files, af)
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
	lists, err := a.ranges(ctx, n)
	if err != nil {
		return task{}, err
	}
	var total int64
	for _, list := range lists {
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

// ranges returns the pieces that a block needs of each file and that were not fetched before. It
// asks all files at once, because a file may have to request its tables to find them.
func (a *prefetcher) ranges(ctx context.Context, n int) ([][]raster.Range, error) {
	w := a.blocks.At(n).Window.Grow(a.blocks.Overlap)
	lists := make([][]raster.Range, len(a.files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(resolve.ManyAtOnce)
	for i, af := range a.files {
		g.Go(func() (err error) {
			if lists[i], err = af.f.RangesOf(ctx, w); err != nil {
				return fmt.Errorf("reading block %d of %s: %w", n, af.f.Path, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, af := range a.files {
		if af.asked != nil {
			lists[i] = af.first(lists[i])
		}
	}
	return lists, nil
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
