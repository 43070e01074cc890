package apply

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/units"
	"leat/internal/worker/coordinator"
	"leat/raster"
	"leat/raster/overview"
)

// Plan describes how a job will be run: the decisions that Run makes before it reads the first
// pixel.
type Plan struct {
	Grid   raster.Grid
	Blocks block.Plan
	// Workers compute. They are goroutines or, if Kind is not empty, processes of that kind, which
	// read their inputs themselves if WorkersRead is set. With OneBlockPerJob there is one for each
	// block.
	Workers     int
	Kind        string
	WorkersRead bool
	Readers     int
	Buffers     int // blocks in memory at once, waiting or being computed
	// CacheBytes is reserved for decoded tiles that several blocks need. MemoryBytes estimates the
	// run's whole memory, BudgetBytes is its limit.
	CacheBytes, MemoryBytes, BudgetBytes int64
	// ForeignBytes is the part of MemoryBytes outside this process's heap: memory of GDAL and of
	// other processes.
	ForeignBytes int64
	// AheadBytes is the maximum size of the pieces of remote files that are fetched before they are
	// read; 0 if there are none.
	AheadBytes int64

	Inputs  []PlanInput
	Outputs []PlanOutput
	Notes   []string // decisions that differ from the request, with reasons
	// Warnings are sentences about probable errors in the job.
	Warnings []string
	// Replaced are blocks of an earlier run that this run replaces; nil if there are none.
	Replaced *ReplacedBlocks

	shares    int   // processes on this machine that share CacheBytes
	gdalBytes int64 // GDAL's cache of the rasters it reads, in each process that reads
}

// PlanInput describes one input file.
type PlanInput struct {
	Name, Path  string
	Description string // size, type, layers, tiling, coding
	// Decodes is how often a stored tile is decoded on average; 1 is best.
	Decodes float64
	// Access is how the file is read: "local", "not read", "in pieces" or "staged". Why is the
	// reason for a remote file. The job needs NeedBytes of its FileBytes; for local files NeedBytes
	// is 0, since it is not computed.
	Access, Why          string
	NeedBytes, FileBytes int64
	// Warped describes how a file off the grid is warped onto it; "" if it is read as it is.
	Warped string
	// XScale and YScale are the warping options XSCALE and YSCALE with which gdalwarp -et 0
	// computes the same pixels; 0 if the file is read as it is.
	XScale, YScale float64
}

// PlanOutput describes one output.
type PlanOutput struct {
	Name, Path string
	Expression string
	Type       string // "from the first block" if unknown
	Bands      int    // 0 if unknown
	Nodata     string
	Coding     string
	TileWidth  int
	TileHeight int
	Overviews  []raster.Size
	RawBytes   int64    // pixels before compression, overviews included; 0 if unknown
	Format     string   // "GTiff", or GDAL's short name of another
	Options    []string // its creation options
	Notes      []string // what the format does not keep
}

// MakePlan opens the inputs of a job, checks all that can be checked, and returns how Run would run
// it. It writes nothing.
func MakePlan(ctx context.Context, job Job) (*Plan, error) {
	r, err := prepare(ctx, &job)
	if err != nil {
		return nil, err
	}
	return r.plan, r.in.Close()
}

// targetPixels is the size of a block to aim for: large enough that the overhead of a block (tens
// of microseconds) is negligible, small enough that a few blocks per worker stay below 100 MB.
const targetPixels = 1 << 20

// remoteBytes estimates the memory of an open remote file: its header and the tables read last.
const remoteBytes = 256 << 10

// baseBytes estimates the memory of the process without buffers.
const baseBytes = output.BaseBytes

// makePlan chooses the block size and the number of buffers within the memory budget.
func makePlan(job *Job, in *resolve.Inputs, outs []*output.Output, grid raster.Grid) (*Plan, error) {
	c := &job.Controls
	p := &Plan{Grid: grid, BudgetBytes: c.MemoryBytes}
	p.setWorkers((*jobspec.Concurrency)(&job.Concurrency))
	if p.BudgetBytes == 0 {
		p.BudgetBytes = DefaultMemoryBytes()
	}
	for _, f := range in.Files {
		if f.Mode == resolve.ReadPieces {
			p.AheadBytes = aheadBytes(p.BudgetBytes)
		}
	}
	alignW, alignH := alignment(outs, grid)
	z := &sizing{in: in, outs: outs, plan: p, overlap: c.Overlap, grid: grid, here: p.Workers, slots: 1}
	if on := job.Concurrency.On; on != nil {
		z.slots = slotsEach(p.Workers)
		if z.here = min(p.Workers, runtime.GOMAXPROCS(0)); on.Capabilities().Local {
			z.here, z.processes = p.Workers*z.slots, p.Workers
		}
		if p.shares = z.here; z.processes > 0 {
			p.shares = z.processes
		}
	}
	if p.WorkersRead {
		p.gdalBytes = in.GDALCacheBytes(p.BudgetBytes/int64(max(1, p.shares)), z.slots)
	} else {
		p.gdalBytes = in.GDALCacheBytes(p.BudgetBytes, p.Readers)
	}
	if c.WindowWidth > 0 || c.WindowHeight > 0 {
		w, h := output.RoundUp(c.WindowWidth, alignW), output.RoundUp(c.WindowHeight, alignH)
		if w != c.WindowWidth || h != c.WindowHeight {
			p.Notes = append(p.Notes, fmt.Sprintf("window %dx%d rounded up to %dx%d, whole output tiles", c.WindowWidth,
				c.WindowHeight, w, h))
		}
		if !z.fits(w, h) {
			return nil, z.tooLittle(w, h)
		}
	} else if err := z.choose(alignW, alignH); err != nil {
		return nil, err
	}
	if job.Concurrency.OneBlockPerJob {
		p.Workers = p.Blocks.Count()
	} else if on := job.Concurrency.On; on != nil {
		if err := coordinator.CheckDescriptors(on.Capabilities(), min(p.Workers, p.Blocks.Count())); err != nil {
			return nil, err
		}
	}
	layout, note := output.LayoutMemory(outs, grid, p.BudgetBytes)
	if note != "" {
		p.Notes = append(p.Notes, note)
	}
	p.MemoryBytes = max(p.MemoryBytes, layout)
	z.describe(job)
	return p, nil
}

// alignment returns the numbers of which block sides must be multiples: whole output tiles, and
// whole cells of all overview levels that are made block by block.
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

// sizing computes block sizes and memory.
type sizing struct {
	in      *resolve.Inputs
	outs    []*output.Output
	plan    *Plan
	overlap int
	grid    raster.Grid
	// here is how many blocks are computed at once in this machine's memory, slots by each worker;
	// processes is the number of workers that are processes. For workers on other machines, here is
	// the number that this machine could run.
	here, slots, processes int
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
	for _, cell := range [][2]int{{tileW, tileH}, {alignW, alignH}} {
		for target := targetPixels; target > targetPixels/64; target /= 2 {
			w, h := cell[0], cell[1]
			// Blocks grow along rows, as files are stored; with a margin or a warped input they
			// stay square.
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
			// Make enough blocks that no core waits long for the last ones.
			for w > cell[0] && z.blocks(w, h) < 4*z.plan.Workers {
				w = max(cell[0], output.RoundUp(w/2, cell[0]))
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
	// Floats don't overflow and hold whole numbers of bytes exactly up to 2^53.
	margin := float64(ww+2*z.overlap) * float64(wh+2*z.overlap)
	var in, tile float64
	for _, f := range z.in.Files {
		in += margin * float64(len(f.Layers)*f.Type.Size())
		if f.Masked() || f.ExceededBy(p.Blocks) {
			in += margin * float64(len(f.Planes))
		}
		tile = max(tile, 2*float64(z.tileBytes(f)))
	}
	var warp float64 // of each reader
	for _, f := range z.in.Files {
		if f.Warp != nil && len(f.Layers) > 0 {
			bytes := float64(f.Warp.MaxBytes)
			if f.Alpha > 0 { // it is read together with the layers, in addition to the block
				bytes += margin * float64((len(f.Layers)+1)*f.Type.Size()+1)
			}
			warp = max(warp, bytes)
		}
	}
	cache := p.gdalBytes
	if p.WorkersRead && cache > 0 {
		cache = (cache + resolve.GDALBytes) * int64(max(1, z.processes))
	}
	var out, scratch float64
	for _, o := range z.outs {
		bytes := float64(max(o.Bands, 1) * max(o.Type.Size(), 4))
		out += margin * bytes
		// encoded tiles of a block before they are spooled
		scratch += float64(ww) * float64(wh) * bytes
		scratch += 4 * float64(o.TileWidth) * float64(o.TileHeight) * max(bytes, 4) // tile, predictor, encoder
		scratch += float64(max(o.Bands, 1)) * (256 << 10)                           // histogram
		scratch += float64(z.grid.Width/o.TileWidth+1) * float64(z.grid.Height/o.TileHeight+1) * 96 / float64(z.here)
	}
	var results int64
	if p.Kind != "" {
		results = resultBytes(p.BudgetBytes)
	}
	for _, f := range z.in.Files {
		if f.Remote != nil {
			in += remoteBytes / float64(p.Buffers)
		}
	}
	readers := float64(max(p.Readers, z.processes))
	foreign := baseBytes*float64(z.processes) + readers*warp + float64(cache) + float64(z.in.LibraryBytes())
	p.ForeignBytes = bytesOf(foreign)
	return bytesOf(baseBytes + foreign + float64(p.AheadBytes) + float64(p.Buffers)*in + float64(z.here)*(out+scratch) +
		readers*tile + float64(results))
}

// stored describes how a file stores its pixels, or its mask: in pieces that are decoded whole.
type stored struct {
	width, height int   // of a piece, in pixels
	bytes         int64 // size of a decoded piece; 0 if pixels are read by rows
	planes        int   // number of planes that are read
}

// pieces returns the pieces of the file's pixels and, if it has one, of its mask.
func pieces(f *resolve.File) []stored {
	i := f.Info
	s := stored{i.TileWidth, i.TileHeight, int64(i.TileWidth) * int64(i.TileHeight) * int64(f.Type.Size()),
		len(f.Layers)}
	if i.Interleave == "pixel" {
		s.bytes *= int64(len(i.Bands))
		s.planes = 1
	}
	if i.Compression == "none" || i.Compression == "unknown" || len(f.Layers) == 0 || f.Warp != nil {
		s.bytes = 0
	}
	list := []stored{s}
	switch {
	case f.Warp != nil || !f.ReadsMask():
	case i.MaskFromNodata: // computed from the pixels of all bands
		if i.Interleave != "pixel" {
			list[0].planes = len(i.Bands)
		}
	case i.MaskTile.Width > 0:
		list = append(list, stored{i.MaskTile.Width, i.MaskTile.Height,
			int64(i.MaskTile.Width) * int64(i.MaskTile.Height), 1})
	}
	return list
}

// tileBytes returns the size of the largest decoded piece of a file.
func (z *sizing) tileBytes(f *resolve.File) int64 {
	var most int64
	for _, s := range pieces(f) {
		most = max(most, s.bytes)
	}
	return most
}

// cacheNeed returns the cache size that lets every tile be decoded once. Where blocks share tiles,
// it holds the rows of tiles that two rows of blocks touch, since some readers begin a row while
// others finish the one above.
func (z *sizing) cacheNeed() int64 {
	var need float64
	p := z.plan.Blocks
	for _, f := range z.in.Files {
		for _, s := range pieces(f) {
			if s.bytes == 0 || !z.shared(f, s) {
				continue
			}
			across := (f.Info.Grid.Width + s.width - 1) / s.width
			down := (f.Info.Grid.Height + s.height - 1) / s.height
			rows := (2*min(p.WindowHeight, z.grid.Height)+2*z.overlap+s.height-1)/s.height + 2
			need += float64(min(rows, down)) * float64(across) * float64(s.planes) * float64(s.bytes)
		}
	}
	return bytesOf(need)
}

// shared reports whether more than one block needs some piece.
func (z *sizing) shared(f *resolve.File, s stored) bool {
	p := z.plan.Blocks
	if z.overlap > 0 && p.Count() > 1 {
		return true
	}
	cols := p.Cols() > 1 && (mod(p.WindowWidth, s.width) != 0 || mod(f.ColOffset, s.width) != 0)
	rows := p.Rows() > 1 && (mod(p.WindowHeight, s.height) != 0 || mod(f.RowOffset, s.height) != 0)
	return cols || rows
}

func (z *sizing) tooLittle(w, h int) error {
	var errs []error
	for _, f := range z.in.Files {
		if n := z.tileBytes(f); 2*n > z.plan.BudgetBytes {
			errs = append(errs, fmt.Errorf("%s is stored in pieces of %d x %d pixels that must be decoded whole and take %s, more than the memory allowed (%s): raise the limit (--memory), or tile the file first, with: gdal_translate -co TILED=YES -co COMPRESS=DEFLATE in.tif out.tif",
				f.Path, f.Info.TileWidth, f.Info.TileHeight, units.FormatSize(n), units.FormatSize(z.plan.BudgetBytes)))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	z.plan.Buffers = z.here + 1
	z.plan.Blocks = block.Plan{Width: z.grid.Width, Height: z.grid.Height, WindowWidth: w, WindowHeight: h,
		Overlap: z.overlap}
	fewer := "-j"
	if z.plan.Kind != "" {
		fewer = "--workers"
	}
	return fmt.Errorf("windows of %d x %d pixels with %s need about %s, more than the memory allowed (%s): raise the limit (--memory) or take fewer workers (%s)",
		w, h, units.Count(z.plan.Workers, "worker"), units.FormatSize(z.bytes(w, h)), units.FormatSize(z.plan.BudgetBytes), fewer)
}

// storedText describes how a file stores its pixels.
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
		return fmt.Sprintf("%sin strips of %s", coding, units.Count(i.TileHeight, "row"))
	}
	return fmt.Sprintf("%sin tiles of %d x %d", coding, i.TileWidth, i.TileHeight)
}

// describe fills in the descriptions of inputs and outputs.
func (z *sizing) describe(job *Job) {
	p := z.plan
	for _, f := range z.in.Files {
		i, warped, xs, ys := f.Info, "", 0.0, 0.0
		if f.Warp != nil {
			i, warped, xs, ys = &f.Warp.Original, f.Warp.Text(), f.Warp.XScale, f.Warp.YScale
		}
		d := fmt.Sprintf("%d x %d pixels, %s of %v, %s", i.Grid.Width, i.Grid.Height, units.Count(len(f.Layers), "layer"),
			f.Type, storedText(i))
		decodes := 1.0
		if z.tileBytes(f) > 0 && p.CacheBytes < z.cacheNeed() {
			decodes = z.decodes(f)
		}
		p.Inputs = append(p.Inputs, PlanInput{Name: f.Name, Path: f.Path, Description: d, Decodes: decodes,
			Access: f.Mode.String(), Why: f.ReadReason, NeedBytes: f.BytesNeeded, FileBytes: i.FileBytes,
			Warped: warped, XScale: xs, YScale: ys})
	}
	for _, o := range z.outs {
		po := PlanOutput{Name: o.Name, Path: o.Spec.Label(), Expression: job.Expressions[o.Name],
			Type: "from the first block", Bands: o.Bands,
			Nodata: "none", Coding: o.CodingText(), TileWidth: o.TileWidth, TileHeight: o.TileHeight,
			Format: o.Spec.FormatName(), Options: o.Spec.Options}
		if o.Type.Valid() {
			po.Type = o.Type.String()
			if o.Nodata != nil {
				po.Nodata = o.Nodata.String()
			}
			po.RawBytes = int64(z.grid.Width) * int64(z.grid.Height) * int64(o.Type.Size()*max(o.Bands, 1))
		}
		full := po.RawBytes
		for _, f := range append(slices.Clone(o.Factors), o.LaterFactors()...) {
			s := raster.Size{Width: overview.Reduced(z.grid.Width, f), Height: overview.Reduced(z.grid.Height, f)}
			po.Overviews = append(po.Overviews, s)
			po.RawBytes += full / int64(f*f)
		}
		p.Outputs = append(p.Outputs, po)
	}
}

// decodes returns how often a tile of the file is decoded on average without a cache.
func (z *sizing) decodes(f *resolve.File) float64 {
	i, n, sum := f.Info, 0, 0
	for y := 0; y < i.Grid.Height; y += i.TileHeight {
		for x := 0; x < i.Grid.Width; x += i.TileWidth {
			w := block.Window{Col: x, Row: y, Width: i.TileWidth, Height: i.TileHeight}.Intersect(i.Grid.Window())
			if k := z.plan.Blocks.CountIntersecting(w.Shift(-f.ColOffset, -f.RowOffset)); k > 0 {
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

// setWorkers sets the numbers of workers and readers, before the number of blocks is known.
func (p *Plan) setWorkers(c *jobspec.Concurrency) {
	p.Workers, p.Readers = c.Counts()
	if c.On == nil {
		if cores := runtime.GOMAXPROCS(0); p.Workers > cores {
			p.Notes = append(p.Notes, fmt.Sprintf("%d workers for %s: more of them than cores take memory and save no time", p.Workers, units.Count(cores, "core")))
		}
		return
	}
	p.Kind = c.On.Name()
	p.WorkersRead = c.WorkersRead()
}

// buffersEach returns how many blocks a worker that reads holds in memory: those it computes, as
// many read ahead, and one in between.
func buffersEach(slots int) int { return 2*slots + 1 }

// slotsEach returns how many blocks a worker process on this machine computes at once.
func slotsEach(workers int) int { return max(1, runtime.GOMAXPROCS(0)/max(1, workers)) }
