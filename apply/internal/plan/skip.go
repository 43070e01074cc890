package plan

import (
	"context"

	"leat/apply/internal/resolve"
	"leat/block"
)

const (
	// leastSparse is the least size of blocks to aim for where only some are computed, in pixels.
	leastSparse = targetPixels / 16
	// mostSparse is the number of blocks up to which sparse tries smaller ones.
	mostSparse = 1 << 20
)

// modeSide is the side of the blocks by which chooseModes first decides how remote files are read.
// The size of the job's own blocks depends on that.
const modeSide = 512

// skip records the blocks that the function does not need.
func (p *Plan) skip(needs func(block.Window) bool) {
	if needs == nil {
		return
	}
	p.Skipped = make([]bool, p.Blocks.Count())
	for n := range p.Skipped {
		if p.Skipped[n] = !needs(p.Blocks.At(n).Window); p.Skipped[n] {
			p.SkippedBlocks++
		}
	}
}

// chooseModes decides how remote files are read if the function does not need all blocks.
func (p *Plan) chooseModes(ctx context.Context, job *resolve.Job, blocks block.Plan) error {
	needs := job.Values.Function.Needs
	if needs == nil {
		return nil
	}
	return job.Inputs.ChooseModes(ctx, func(yield func(block.Window) bool) {
		for n := range blocks.Count() {
			if w := blocks.At(n).Window; needs(w) && !yield(w.Grow(blocks.Overlap)) {
				return
			}
		}
	})
}

// sparse returns the size of blocks to aim for, in pixels, at most target. If the function does not
// need all blocks, it is the largest size that reads at most a quarter more pixels than the least.
func (z *sizing) sparse(cell [2]int, target int, square bool) int {
	if z.needs == nil {
		return target
	}
	least := max(leastSparse, marginShare*marginShare*z.overlap*z.overlap)
	var targets []int
	var pixels []int64
	for t := target; t >= min(least, target); t /= 2 {
		n, ok := z.neededPixels(z.grow(cell, t, square))
		if !ok {
			break
		}
		targets, pixels = append(targets, t), append(pixels, n)
	}
	for i, n := range pixels {
		if n <= pixels[len(pixels)-1]*5/4 {
			return targets[i]
		}
	}
	return target
}

// neededPixels returns how many pixels are read with blocks of this size. It returns false if there
// are too many blocks to try.
func (z *sizing) neededPixels(w, h int) (pixels int64, ok bool) {
	blocks := block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h}
	if blocks.Count() > mostSparse {
		return 0, false
	}
	for n := range blocks.Count() {
		if b := blocks.At(n).Window; z.needs(b) {
			pixels += b.Grow(z.overlap).Pixels()
		}
	}
	return pixels, true
}
