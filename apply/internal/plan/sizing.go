package plan

import (
	"cmp"
	"errors"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/units"
	"leat/raster"
)

// targetPixels is the size of a block to aim for: large enough that the overhead of a block (tens
// of microseconds) is negligible, small enough that a few blocks per worker stay below 100 MB.
const targetPixels = 1 << 20

// leastPixels is the least size of a block to aim for.
const leastPixels = targetPixels / 32

// targetBytes is the size of a block's inputs to aim for if they are tiles of local files: more are
// written to main memory and read from there, instead of a processor's cache.
const targetBytes = 16 << 20

// alignment returns the units of block sides: a block has whole output tiles, and whole cells of
// all overview levels that are made block by block.
func alignment(outs []*output.Output, grid raster.Grid) (w, h int) {
	if len(outs) == 0 {
		return 256, 256 // the block size of RIOS
	}
	w, h = 1, 1
	for _, o := range outs {
		f := 1
		for _, l := range o.Factors {
			f = max(f, min(l, spool.MaxFusedFactor))
		}
		// A side that covers the grid needs no further alignment.
		w = min(output.LCM(w, output.LCM(o.TileWidth, f)), output.RoundUp(grid.Width, 16))
		h = min(output.LCM(h, output.LCM(o.TileHeight, f)), output.RoundUp(grid.Height, 16))
	}
	return w, h
}

// choose takes the first block size that fits the budget: about targetPixels at first, then smaller
// ones.
func (z *sizing) choose(alignW, alignH int) error {
	// Blocks of whole input tiles decode each tile once without a cache.
	tileW, tileH := alignW, alignH
	// Warped inputs are read in boxes around the blocks: those of long blocks would be much too
	// large where the rows of file and grid are not parallel.
	square := z.overlap > 0
	for _, f := range z.in.Files {
		if f.Warp != nil {
			square = square || len(f.Layers) > 0
			continue
		}
		if f.Info.TileWidth < f.Info.Grid.Width && mod(f.ColOffset, f.Info.TileWidth) == 0 {
			if l := output.LCM(tileW, f.Info.TileWidth); l <= 2048 {
				tileW = l
			}
		}
		if mod(f.RowOffset, f.Info.TileHeight) == 0 {
			if l := output.LCM(tileH, f.Info.TileHeight); l <= 2048 {
				tileH = l
			}
		}
	}
	if z.chooseForOverviews(tileW, tileH) {
		return nil
	}
	most := z.target(tileW * tileH)
	for _, cell := range [][2]int{{tileW, tileH}, {alignW, alignH}} {
		for target := z.sparse(cell, most, square); target >= leastPixels; target /= 2 {
			w, h := z.grow(cell, target, square)
			// Make enough blocks that no core waits long for the last ones.
			for w > max(cell[0], marginShare*z.overlap) && z.blocks(w, h) < 4*z.plan.Workers {
				w = max(cell[0], output.RoundUp(w/2, cell[0]))
			}
			for h > max(cell[1], marginShare*z.overlap) && z.blocks(w, h) < 4*z.plan.Workers {
				h = max(cell[1], output.RoundUp(h/2, cell[1]))
			}
			if z.fits(w, h) {
				return nil
			}
		}
	}
	return z.tooLittle(alignW, alignH)
}

// chooseForOverviews chooses blocks that have whole tiles of the finest overviews, if there are
// enough of them within the budget. Their workers then encode these tiles, whose pixels would
// otherwise be written to the spool and read back. The blocks are higher than others, so stored
// pieces that several blocks share would be kept longer or decoded twice.
func (z *sizing) chooseForOverviews(tileW, tileH int) bool {
	w, h := tileW, tileH
	for _, o := range z.outs {
		if len(o.Factors) > 0 {
			f := min(o.Factors[0], spool.MaxFusedFactor)
			w, h = output.LCM(w, o.TileWidth*f), output.LCM(h, o.TileHeight*f)
		}
		if w > targetPixels || h > targetPixels/w {
			return false
		}
	}
	if w == tileW && h == tileH || z.overlap > 0 || z.needs != nil {
		return false
	}
	w, h = z.grow([2]int{w, h}, targetPixels, false)
	if z.blocks(w, h) < 4*z.plan.Workers {
		return false
	}
	plan := block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h}
	for _, f := range z.in.Files {
		if f.Warp != nil || f.Info.TileWidth >= f.Info.Grid.Width || Shared(f, plan) {
			return false
		}
	}
	return z.fits(w, h)
}

// grow returns the sides of a block of at most target pixels, unless a cell has more. Blocks grow
// along rows, as files are stored; with a margin or a warped input they stay square.
func (z *sizing) grow(cell [2]int, target int, square bool) (w, h int) {
	w, h = cell[0], cell[1]
	for 2*w*h <= target {
		switch {
		case w < z.grid.Width && (!square || w <= h):
			w *= 2
		case h < z.grid.Height && (square || w >= z.grid.Width):
			h *= 2
		default:
			return w, h
		}
	}
	return w, h
}

// marginShare is the least ratio of a block's side to its margin to aim for: with 8, half of the
// pixels are read once more.
const marginShare = 8

// target returns the size of blocks to aim for, in pixels. A block of tiles of cell pixels has two
// tiles of each file at least, which are decoded faster together.
func (z *sizing) target(cell int) int {
	least := int64(marginShare) * int64(z.overlap)
	target := cmp.Or(z.blockPixels, targetPixels)
	for int64(target) < min(least*least, int64(z.grid.Width)*int64(z.grid.Height)) && target < 1<<30 {
		target *= 2
	}
	if pixel := z.tiledBytes(); pixel > 0 && z.overlap == 0 {
		for target/2 >= max(2*cell, leastPixels) && target > targetBytes/pixel {
			target /= 2
		}
	}
	return target
}

// tiledBytes returns the size of a pixel of all inputs, 0 if some are not tiles of local files: to
// read those in more and smaller parts takes longer.
func (z *sizing) tiledBytes() (pixel int) {
	for _, f := range z.in.Files {
		if len(f.Layers) == 0 {
			continue
		}
		if f.Warp != nil || f.Remote != nil || f.MayWait() || f.Info.TileWidth >= f.Info.Grid.Width {
			return 0
		}
		pixel += len(f.Layers) * f.Type.Size()
	}
	return pixel
}

func mod(a, n int) int { return ((a % n) + n) % n }

func (z *sizing) blocks(w, h int) int {
	return block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h}.Count()
}

// fits reports whether the budget allows blocks of w x h pixels. If so, it sets them in the plan,
// with as many buffers and as large a tile cache as possible.
func (z *sizing) fits(w, h int) bool {
	p := z.plan
	p.Blocks = block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h,
		Overlap: z.overlap}
	// One block with each worker and each reader, and one between them.
	most := z.here + p.Readers + 1
	if z.processes > 0 {
		most += z.processes // each holds one more block than it computes
	}
	least := z.here + 1
	if p.WorkersRead && z.processes > 0 {
		most = z.processes * BuffersEach(z.slots) // in their own memory
		least = min(most, max(least, p.Blocks.Count()))
	}
	ahead := z.ahead()
	for p.Buffers = most + ahead; p.Buffers >= least; p.Buffers-- {
		p.Buffers = min(p.Buffers, max(z.here+1, p.Blocks.Count()))
		fixed := z.bytes(w, h)
		if fixed > p.BudgetBytes || p.Buffers > most && fixed+cacheNeed(z.in, p.Blocks) > p.BudgetBytes/2 {
			continue
		}
		p.ExtraBuffers = max(0, p.Buffers-most)
		p.CacheBytes = min(cacheNeed(z.in, p.Blocks), p.BudgetBytes-fixed)
		p.MemoryBytes = fixed + p.CacheBytes
		z.addReads()
		// Outputs without a declared type or number of bands may take more than estimated.
		p.OutputBytes = z.out + (p.BudgetBytes-p.MemoryBytes)/int64(max(1, z.here))
		return true
	}
	return false
}

// loadingBytes is the size of the blocks that are read while a function is being loaded: about what
// one core decodes until Python has imported NumPy.
const loadingBytes = 32 << 20

// ahead returns how many blocks more than usual are read while the function is being loaded.
func (z *sizing) ahead() int {
	if !z.loading {
		return 0
	}
	n := 0.0 // bytes of a block
	b := z.plan.Blocks
	for _, f := range z.in.Files {
		n += float64(b.WindowWidth+2*b.Overlap) * float64(b.WindowHeight+2*b.Overlap) *
			float64(len(f.Layers)*f.Type.Size()+len(f.Planes))
	}
	return int(loadingBytes / max(n, 1<<16))
}

// maxTogether bounds how many files of a block a reader reads at once.
const maxTogether = 16

// addReads plans how many files of a block that may wait are read at once. The memory that is left
// must hold the tiles that they decode.
func (z *sizing) addReads() {
	p := z.plan
	n, tile := 0, int64(0)
	for _, f := range z.in.Files {
		if f.MayWait() {
			n++
			tile = max(tile, decodeBytes(f))
		}
	}
	p.ExtraReads = z.readers() * max(0, min(n, maxTogether)-1)
	if tile > 0 {
		p.ExtraReads = int(min(int64(p.ExtraReads), (p.BudgetBytes-p.MemoryBytes)/tile))
		p.MemoryBytes += int64(p.ExtraReads) * tile
	}
}

// readers returns how many blocks are read at once.
func (z *sizing) readers() int {
	n := max(z.plan.Readers, z.processes)
	if z.plan.WorkersRead {
		n = max(n, z.processes*z.slots)
	}
	return n
}

func (z *sizing) tooLittle(w, h int) error {
	var errs []error
	for _, f := range z.in.Files {
		if n := tileBytes(f); 2*n > z.plan.BudgetBytes {
			errs = append(errs, jobspec.Errorf("Controls.MemoryBytes",
				"%s is stored in pieces of %d x %d pixels that must be decoded whole and take %s, more than the memory allowed (%s)",
				f.Path, f.Info.TileWidth, f.Info.TileHeight, units.FormatSize(n), units.FormatSize(z.plan.BudgetBytes)))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	z.plan.Buffers = z.here + 1
	z.plan.Blocks = block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h,
		Overlap: z.overlap}
	return jobspec.Errorf("Controls.MemoryBytes",
		"blocks of %d x %d pixels with %s need about %s, more than the memory allowed (%s)", w, h,
		units.Count(z.plan.Workers, "worker"), units.FormatSize(z.bytes(w, h)), units.FormatSize(z.plan.BudgetBytes))
}
