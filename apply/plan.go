package apply

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"leat/block"
	"leat/raster"
	"leat/raster/overview"
)

// Plan is how a job will be run: what Run decides before it reads the first pixel.
type Plan struct {
	Grid   raster.Grid
	Blocks block.Plan
	// Workers compute: goroutines, or, where Kind names one, processes of that kind, which read their inputs themselves if WorkersRead. In jobs of a
	// single block there are as many as blocks, one after another.
	Workers     int
	Kind        string
	WorkersRead bool
	Readers     int
	Buffers     int // blocks in memory at once, waiting or worked on
	// CacheBytes are set aside for decoded tiles that several blocks need. MemoryBytes is the estimate of all that the
	// run takes, BudgetBytes its ceiling.
	CacheBytes, MemoryBytes, BudgetBytes int64
	// ForeignBytes are those of MemoryBytes that are not on the heap of this process: GDAL's, and other processes'.
	ForeignBytes int64
	// AheadBytes is what pieces of remote files may take that are fetched before they are read; 0 where there are none.
	AheadBytes int64

	Inputs  []PlanInput
	Outputs []PlanOutput
	Notes   []string // what was decided otherwise than asked, and why

	shares    int   // processes of this machine among which CacheBytes is shared out
	gdalBytes int64 // that GDAL may keep, in each process that reads, of the rasters that it reads
}

// PlanInput describes one input file.
type PlanInput struct {
	Name, Path  string
	Description string // size, type, layers, tiling, coding
	// Decodes says how often a stored tile is decoded on average; 1 is best.
	Decodes float64
	// Access is how the file is read, "local", "not read", "in pieces" or "staged", and Why the reason for a remote one. NeedBytes of its
	// FileBytes are needed; 0 for local files, of which that is not worked out.
	Access, Why          string
	NeedBytes, FileBytes int64
	// Warped says how a file off the grid is brought onto it, "" where it is read as it is.
	Warped string
}

// PlanOutput describes one output.
type PlanOutput struct {
	Name, Path string
	Expression string
	Type       string // "from the first block" where it is not known yet
	Bands      int    // 0: not known yet
	Nodata     string
	Coding     string
	TileWidth  int
	TileHeight int
	Overviews  []raster.Size
	RawBytes   int64    // pixels before compression, overviews included; 0 when not known
	Format     string   // "GTiff", or GDAL's short name of another
	Options    []string // its creation options
	Notes      []string // what the format does not keep
}

// MakePlan opens the inputs of a job, checks everything that can be checked, and says how it would be
// run. Nothing is written.
func MakePlan(ctx context.Context, job Job) (*Plan, error) {
	r, err := prepare(ctx, &job)
	if err != nil {
		return nil, err
	}
	return r.plan, r.in.close()
}

// targetPixels is how many pixels a block should have: large enough that the cost of a block (tens of
// microseconds) does not show, small enough that a few blocks per worker stay below 100 MB.
const targetPixels = 1 << 20

// remoteBytes is what an open remote file keeps: its header and the tables that were read last.
const remoteBytes = 256 << 10

// baseBytes is what the process takes besides buffers: runtime, code, tables.
const baseBytes = 24 << 20

// makePlan chooses the window and the number of buffers within the memory budget.
func makePlan(job *Job, in *inputs, outs []*output, grid raster.Grid) (*Plan, error) {
	c := &job.Controls
	p := &Plan{Grid: grid, BudgetBytes: c.MemoryBytes}
	p.settleWorkers(&job.Concurrency)
	if p.BudgetBytes == 0 {
		p.BudgetBytes = DefaultMemoryBytes()
	}
	for _, f := range in.files {
		if f.access == accessPieces {
			p.AheadBytes = aheadBytes(p.BudgetBytes)
		}
	}
	alignW, alignH := alignment(outs, grid)
	z := &sizing{in: in, outs: outs, plan: p, overlap: c.Overlap, grid: grid, here: p.Workers, slots: 1}
	if on := job.Concurrency.On; on != nil {
		z.slots = slotsEach(p.Workers)
		if z.here = min(p.Workers, runtime.GOMAXPROCS(0)); on.Facts().Local {
			z.here, z.processes = p.Workers*z.slots, p.Workers
		}
		if p.shares = z.here; z.processes > 0 {
			p.shares = z.processes
		}
	}
	if p.WorkersRead {
		p.gdalBytes = in.gdalCacheBytes(p.BudgetBytes/int64(max(1, p.shares)), z.slots)
	} else {
		p.gdalBytes = in.gdalCacheBytes(p.BudgetBytes, p.Readers)
	}
	if c.WindowWidth > 0 || c.WindowHeight > 0 {
		w, h := roundUp(c.WindowWidth, alignW), roundUp(c.WindowHeight, alignH)
		if w != c.WindowWidth || h != c.WindowHeight {
			p.Notes = append(p.Notes, fmt.Sprintf("window %dx%d rounded up to %dx%d, whole output tiles", c.WindowWidth, c.WindowHeight, w, h))
		}
		if !z.fits(w, h) {
			return nil, z.tooLittle(w, h)
		}
	} else if err := z.choose(alignW, alignH); err != nil {
		return nil, err
	}
	if job.Concurrency.SingleBlockJobs {
		p.Workers = p.Blocks.Count()
	}
	p.reckonLayout(outs)
	z.describe(job)
	return p, nil
}

// alignment is what window sides must be multiples of: whole output tiles, and whole cells of all
// overview levels that are made block by block.
func alignment(outs []*output, grid raster.Grid) (w, h int) {
	w, h = 1, 1
	for _, o := range outs {
		f := 1
		for _, l := range o.factors {
			f = max(f, min(l, maxFusedFactor))
		}
		w, h = lcm(w, lcm(o.tileW, f)), lcm(h, lcm(o.tileH, f))
	}
	if len(outs) == 0 {
		return 256, 256 // as RIOS's users know it
	}
	// A side that covers the grid needs no more alignment.
	return min(w, roundUp(grid.Width, 16)), min(h, roundUp(grid.Height, 16))
}

// maxFusedFactor is the largest overview factor whose pixels are made from one block. Coarser levels are
// tiny and made at the end from the level before.
const maxFusedFactor = 512

func roundUp(n, step int) int { return max(1, (n+step-1)/step) * step }

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// sizing works out windows and memory.
type sizing struct {
	in      *inputs
	outs    []*output
	plan    *Plan
	overlap int
	grid    raster.Grid
	// here are the blocks that are worked on at once in this machine's memory, by workers of slots each; processes are the workers that are
	// processes of their own. Of workers elsewhere, the memory of as many is reckoned as this machine could have.
	here, slots, processes int
}

// choose takes the first window that fits the budget: about targetPixels at first, then ever smaller ones.
func (z *sizing) choose(alignW, alignH int) error {
	// Whole input tiles are decoded once without being kept.
	tileW, tileH := alignW, alignH
	// What is warped is read in boxes around the blocks: long ones would take far more than they need where the rows of file and grid are not parallel.
	square := z.overlap > 0
	for _, f := range z.in.files {
		if f.warp != nil {
			square = square || len(f.layers) > 0
			continue
		}
		if f.info.TileWidth < f.info.Grid.Width && mod(f.dc, f.info.TileWidth) == 0 {
			if l := lcm(tileW, f.info.TileWidth); l <= 2048 {
				tileW = l
			}
		}
		if mod(f.dr, f.info.TileHeight) == 0 {
			if l := lcm(tileH, f.info.TileHeight); l <= 2048 {
				tileH = l
			}
		}
	}
	for _, cell := range [][2]int{{tileW, tileH}, {alignW, alignH}} {
		for target := targetPixels; target > targetPixels/64; target /= 2 {
			w, h := cell[0], cell[1]
			// Blocks grow along rows, as files are stored; with a margin, or a warped input, they grow square.
			for {
				grown := false
				if fits := 2 * w * h; fits <= target && w < z.grid.Width && (!square || w <= h) {
					w *= 2
					grown = true
				} else if fits <= target && h < z.grid.Height && (square || w >= z.grid.Width) {
					h *= 2
					grown = true
				}
				if !grown {
					break
				}
			}
			// Enough blocks that no core waits long for the last ones.
			for w > cell[0] && z.blocks(w, h) < 4*z.plan.Workers {
				w = max(cell[0], roundUp(w/2, cell[0]))
			}
			if z.fits(w, h) {
				return nil
			}
		}
	}
	return z.tooLittle(alignW, alignH)
}

func mod(a, n int) int { return ((a % n) + n) % n }

func (z *sizing) blocks(w, h int) int {
	return block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h}.Count()
}

// fits sets the plan to windows of w x h pixels if the budget allows it, with as many buffers and as large a
// tile cache as there is room for.
func (z *sizing) fits(w, h int) bool {
	p := z.plan
	p.Blocks = block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h, Overlap: z.overlap}
	// One block with each worker and each reader, and one between them.
	most := z.here + p.Readers + 1
	if z.processes > 0 {
		most += z.processes // each has one block more than it works on
	}
	least := z.here + 1
	if p.WorkersRead && z.processes > 0 {
		most = z.processes * buffersEach(z.slots) // in their own memory
		least = min(most, max(least, p.Blocks.Count()))
	}
	for p.Buffers = most; p.Buffers >= least; p.Buffers-- {
		p.Buffers = min(p.Buffers, max(z.here+1, p.Blocks.Count()))
		fixed := z.bytes(w, h)
		if fixed > p.BudgetBytes {
			continue
		}
		p.CacheBytes = min(z.cacheNeed(), p.BudgetBytes-fixed)
		p.MemoryBytes = fixed + p.CacheBytes
		return true
	}
	return false
}

// bytes estimates the memory of a run without the tile cache.
func (z *sizing) bytes(w, h int) int64 {
	p := z.plan
	ww, wh := min(w, z.grid.Width), min(h, z.grid.Height)
	margin := int64(ww+2*z.overlap) * int64(wh+2*z.overlap)
	var in, tile int64
	for _, f := range z.in.files {
		in += margin * int64(len(f.layers)*f.typ.Size())
		if f.masked || f.outside(p.Blocks) {
			in += margin
		}
		tile = max(tile, 2*z.tileBytes(f))
	}
	var warp int64 // of each reader
	for _, f := range z.in.files {
		if f.warp != nil && len(f.layers) > 0 {
			bytes := f.warp.MaxBytes
			if f.alpha > 0 { // is read with the layers, beside the block
				bytes += margin * int64((len(f.layers)+1)*f.typ.Size()+1)
			}
			warp = max(warp, bytes)
		}
	}
	cache := p.gdalBytes
	if p.WorkersRead && cache > 0 {
		cache = (cache + gdalBytes) * int64(max(1, z.processes))
	}
	var out, scratch int64
	for _, o := range z.outs {
		bytes := int64(max(o.bands, 1) * max(o.typ.Size(), 4))
		out += margin * bytes
		scratch += int64(ww) * int64(wh) * bytes                       // encoded tiles of a block before they are spooled
		scratch += 4 * int64(o.tileW) * int64(o.tileH) * max(bytes, 4) // tile, predictor, encoder
		scratch += int64(max(o.bands, 1)) * (256 << 10)                // histogram
		scratch += int64(z.grid.Width/o.tileW+1) * int64(z.grid.Height/o.tileH+1) * 96 / int64(z.here)
	}
	var results int64
	if p.Kind != "" {
		results = resultBytes(p.BudgetBytes)
	}
	for _, f := range z.in.files {
		if f.remote != nil {
			in += remoteBytes / int64(p.Buffers)
		}
	}
	readers := int64(max(p.Readers, z.processes))
	p.ForeignBytes = baseBytes*int64(z.processes) + readers*warp + cache + z.in.libraryBytes()
	return baseBytes + p.ForeignBytes + p.AheadBytes + int64(p.Buffers)*in + int64(z.here)*(out+scratch) + readers*tile + results
}

// stored is how a file holds its pixels, or its mask: in pieces that are decoded whole.
type stored struct {
	width, height int   // of a piece, in pixels
	bytes         int64 // that a decoded piece takes; 0 where pixels are read by rows
	planes        int   // that are read
}

// pieces are those of the file's pixels and, where it has one, of its mask.
func pieces(f *inputFile) []stored {
	i := f.info
	s := stored{i.TileWidth, i.TileHeight, int64(i.TileWidth) * int64(i.TileHeight) * int64(f.typ.Size()), len(f.layers)}
	if i.Interleave == "pixel" {
		s.bytes *= int64(len(i.Bands))
		s.planes = 1
	}
	if i.Compression == "none" || i.Compression == "unknown" || len(f.layers) == 0 || f.warp != nil {
		s.bytes = 0
	}
	list := []stored{s}
	if f.masked && f.warp == nil && f.alpha == 0 && i.MaskTile.Width > 0 {
		list = append(list, stored{i.MaskTile.Width, i.MaskTile.Height, int64(i.MaskTile.Width) * int64(i.MaskTile.Height), 1})
	}
	return list
}

// tileBytes is the memory that the largest decoded piece of a file takes.
func (z *sizing) tileBytes(f *inputFile) int64 {
	var most int64
	for _, s := range pieces(f) {
		most = max(most, s.bytes)
	}
	return most
}

// cacheNeed is what it takes to decode every tile once: where blocks share tiles, the rows of tiles that two rows of
// blocks touch, since some readers begin a row while others end the one above.
func (z *sizing) cacheNeed() int64 {
	var need int64
	p := z.plan.Blocks
	for _, f := range z.in.files {
		for _, s := range pieces(f) {
			if s.bytes == 0 || !z.shared(f, s) {
				continue
			}
			across := (f.info.Grid.Width + s.width - 1) / s.width
			down := (f.info.Grid.Height + s.height - 1) / s.height
			rows := (2*min(p.WindowHeight, z.grid.Height)+2*z.overlap+s.height-1)/s.height + 2
			need += int64(min(rows, down)) * int64(across*s.planes) * s.bytes
		}
	}
	return need
}

// shared reports whether some piece takes part in more than one block.
func (z *sizing) shared(f *inputFile, s stored) bool {
	p := z.plan.Blocks
	if z.overlap > 0 && p.Count() > 1 {
		return true
	}
	cols := p.Across() > 1 && (mod(p.WindowWidth, s.width) != 0 || mod(f.dc, s.width) != 0)
	rows := p.Down() > 1 && (mod(p.WindowHeight, s.height) != 0 || mod(f.dr, s.height) != 0)
	return cols || rows
}

func (z *sizing) tooLittle(w, h int) error {
	var errs []error
	for _, f := range z.in.files {
		if n := z.tileBytes(f); 2*n > z.plan.BudgetBytes {
			errs = append(errs, fmt.Errorf("%s is stored in pieces of %d x %d pixels that must be decoded whole and take %s, more than the memory allowed (%s): raise the limit (--memory), or tile the file first, with: gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.tif out.tif",
				f.path, f.info.TileWidth, f.info.TileHeight, sizeText(n), sizeText(z.plan.BudgetBytes)))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	z.plan.Buffers = z.here + 1
	z.plan.Blocks = block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h, Overlap: z.overlap}
	fewer := "-j"
	if z.plan.Kind != "" {
		fewer = "--workers"
	}
	return fmt.Errorf("windows of %d x %d pixels with %s need about %s, more than the memory allowed (%s): raise the limit (--memory) or take fewer workers (%s)",
		w, h, count(z.plan.Workers, "worker"), sizeText(z.bytes(w, h)), sizeText(z.plan.BudgetBytes), fewer)
}

// sizeText shows bytes as people read them.
func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return count(int(n), "byte")
}

// storedText says how a file keeps its pixels.
func storedText(i *raster.Info) string {
	coding := i.Compression + ", "
	switch i.Compression {
	case "none":
		coding = "not compressed, "
	case "unknown":
		coding = ""
	}
	switch {
	case i.TileHeight >= i.Grid.Height && i.TileWidth >= i.Grid.Width:
		return coding + "in one piece"
	case i.TileWidth >= i.Grid.Width:
		return fmt.Sprintf("%sin strips of %s", coding, count(i.TileHeight, "row"))
	}
	return fmt.Sprintf("%sin tiles of %d x %d", coding, i.TileWidth, i.TileHeight)
}

// describe fills in what a person wants to know of inputs and outputs.
func (z *sizing) describe(job *Job) {
	p := z.plan
	for _, f := range z.in.files {
		i, warped := f.info, ""
		if f.warp != nil {
			i, warped = &f.warp.was, f.warp.text()
		}
		d := fmt.Sprintf("%d x %d pixels, %s of %v, %s", i.Grid.Width, i.Grid.Height, count(len(f.layers), "layer"), f.typ, storedText(i))
		decodes := 1.0
		if z.tileBytes(f) > 0 && p.CacheBytes < z.cacheNeed() {
			decodes = z.decodes(f)
		}
		p.Inputs = append(p.Inputs, PlanInput{Name: f.input, Path: f.path, Description: d, Decodes: decodes,
			Access: f.access.String(), Why: f.why, NeedBytes: f.needs, FileBytes: i.FileBytes, Warped: warped})
	}
	for _, o := range z.outs {
		po := PlanOutput{Name: o.name, Path: o.spec.label(), Expression: job.Expressions[o.name], Type: "from the first block", Bands: o.bands,
			Nodata: "none", Coding: o.codingText(), TileWidth: o.tileW, TileHeight: o.tileH, Format: o.spec.formatName(), Options: o.spec.Options}
		if o.typ.Valid() {
			po.Type = o.typ.String()
			if o.nodata != nil {
				po.Nodata = o.nodata.String()
			}
			po.RawBytes = int64(z.grid.Width) * int64(z.grid.Height) * int64(o.typ.Size()*max(o.bands, 1))
		}
		full := po.RawBytes
		for _, f := range append(slices.Clone(o.factors), o.foreign.factors...) {
			s := raster.Size{Width: overview.Reduced(z.grid.Width, f), Height: overview.Reduced(z.grid.Height, f)}
			po.Overviews = append(po.Overviews, s)
			po.RawBytes += full / int64(f*f)
		}
		p.Outputs = append(p.Outputs, po)
	}
}

// decodes is how often a tile of the file would be decoded if none were kept.
func (z *sizing) decodes(f *inputFile) float64 {
	i, n, sum := f.info, 0, 0
	for y := 0; y < i.Grid.Height; y += i.TileHeight {
		for x := 0; x < i.Grid.Width; x += i.TileWidth {
			w := block.Window{Col: x, Row: y, Width: i.TileWidth, Height: i.TileHeight}.Intersect(i.Grid.Window())
			if k := z.plan.Blocks.Touching(w.Shift(-f.dc, -f.dr)); k > 0 {
				n++
				sum += k
			}
		}
	}
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}
