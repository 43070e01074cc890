package plan

import (
	"math"
	"slices"

	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/overview"
	"leat/internal/tiff"
	"leat/raster"
)

// remoteBytes estimates the memory of an open remote file: its header and the tables read last.
const remoteBytes = 256 << 10

// baseBytes estimates the memory of the process without buffers.
const baseBytes = output.BaseBytes

// AheadBytes returns the maximum size of the pieces that are fetched ahead: 32 MiB keep a network
// of 1 Gbit/s busy with a latency of 250 ms; less if the budget is small.
func AheadBytes(budget int64) int64 { return min(32<<20, max(1<<20, budget/16)) }

// AheadLimit returns AheadBytes of the plan, or of its budget if the plan stages all remote files:
// some of them may then be read in pieces after all.
func (p *Plan) AheadLimit() int64 {
	if p.AheadBytes == 0 {
		return AheadBytes(p.BudgetBytes)
	}
	return p.AheadBytes
}

// ResultBytes returns how many bytes of results of worker processes may wait to be accepted.
func ResultBytes(budget int64) int64 { return min(256<<20, max(16<<20, budget/8)) }

// bytesOf converts an estimate of bytes to an integer, limited to the largest one.
func bytesOf(estimate float64) int64 {
	if estimate >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(estimate)
}

// sizing computes block sizes and memory.
type sizing struct {
	in   *resolve.Inputs
	outs []*output.Output
	// variables are those of the function, and params is the size of its parameters in each
	// process, which were made with GDAL's library if paramsGDAL is true.
	variables  []*resolve.Program
	params     int64
	paramsGDAL bool
	// merging is the memory of merging emitted values, pixel what the function takes for each pixel
	// of a block.
	merging, pixel int64
	blockPixels    int                // size of blocks to aim for; 0: targetPixels
	loading        bool               // the function is being loaded while the first blocks are read
	programs       []*resolve.Program // of outputs; nil for a function
	// needs reports whether the function needs a block; nil if the size of blocks does not depend
	// on it.
	needs   func(block.Window) bool
	plan    *Plan
	overlap int
	grid    raster.Grid
	// here is how many blocks are computed at once in this machine's memory, slots by each worker;
	// processes is the number of workers that are processes. For workers on other machines, here is
	// the number that this machine could run.
	here, slots, processes int
	out                    int64 // estimate of the outputs of one block
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
		tile = max(tile, float64(decodeBytes(f)))
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
	cache := p.GDALBytes
	if p.WorkersRead && cache > 0 {
		cache = (cache + resolve.GDALBytes) * int64(max(1, z.processes))
	}
	var out, scratch, tables float64
	for _, v := range z.variables {
		out += margin * float64(v.Bands()*(v.Type().Size()+1)) // pixels and valid ones
	}
	for _, o := range z.outs {
		if o.Spec.Table != nil {
			continue
		}
		bytes := float64(max(o.Bands, 1) * max(o.Type.Size(), 4))
		out += margin * bytes
		// encoded tiles of a block before they are spooled
		scratch += float64(ww) * float64(wh) * bytes
		scratch += 4 * float64(o.TileWidth) * float64(o.TileHeight) * max(bytes, 4) // tile, predictor, encoder
		scratch += float64(max(o.Bands, 1)) * (256 << 10)                           // histogram
		scratch += overviewBytes(o, ww, wh)
		tables += tableBytes(o, z.grid)
	}
	for _, pr := range append(slices.Clone(z.programs), z.variables...) {
		scratch += float64(pr.ScratchBytes(ww, wh))
	}
	scratch += float64(ww) * float64(wh) * float64(z.pixel)
	z.out = bytesOf(out)
	var results int64
	if p.Kind != "" {
		results = ResultBytes(p.BudgetBytes)
	}
	for _, f := range z.in.Files {
		if f.Remote != nil {
			in += remoteBytes / float64(p.Buffers)
		}
	}
	readers := float64(z.readers())
	library := z.in.LibraryBytes()
	if z.paramsGDAL {
		library = resolve.GDALBytes
	}
	foreign := (baseBytes+float64(z.params))*float64(z.processes) + readers*warp + float64(cache) + float64(library)
	p.ForeignBytes = bytesOf(foreign)
	here := baseBytes + float64(z.params) + float64(z.merging) + tables + float64(z.here)*(out+scratch)
	return bytesOf(here + foreign + float64(p.AheadBytes) + float64(p.Buffers)*in + readers*tile + float64(results))
}

// tileEntry is the memory that the run needs for the offset and length of a tile.
const tileEntry = 12

// tableBytes estimates the memory for the offsets and lengths of an output's tiles.
func tableBytes(o *output.Output, g raster.Grid) (bytes float64) {
	planes := float64(max(o.Bands, 1))
	if o.Spec.PixelInterleave {
		planes = 1
	}
	for _, f := range append([]int{1}, o.Factors...) {
		across, down := overview.Reduced(g.Width, f*o.TileWidth), overview.Reduced(g.Height, f*o.TileHeight)
		bytes += planes * float64(across) * float64(down) * tileEntry
	}
	return bytes
}

// overviewBytes estimates the memory for the overviews of a block: their pixels, a copy of them in
// the record, and an overview tile of all bands.
func overviewBytes(o *output.Output, w, h int) float64 {
	if len(o.Factors) == 0 {
		return 0
	}
	pixel := float64(max(o.Bands, 1) * max(o.Type.Size(), 4))
	bytes := float64(o.TileWidth) * float64(o.TileHeight) * pixel
	for _, f := range o.Factors {
		bytes += 2 * float64(overview.Reduced(w, f)) * float64(overview.Reduced(h, f)) * pixel
	}
	return bytes
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
func tileBytes(f *resolve.File) int64 {
	var most int64
	for _, s := range pieces(f) {
		most = max(most, s.bytes)
	}
	return most
}

// decodeBytes returns the most memory that a reader needs to decode a file's tiles: stored and
// decoded, one of them or two small ones.
func decodeBytes(f *resolve.File) int64 {
	n := tileBytes(f)
	if n <= tiff.PairBytes {
		n *= 2
	}
	return 2 * n
}

// cacheNeed returns the cache size that lets every tile be decoded once. Where blocks share tiles,
// it holds the rows of tiles that two rows of blocks touch, since some readers begin a row while
// others finish the one above.
func cacheNeed(in *resolve.Inputs, p block.Plan) int64 {
	var need float64
	for _, f := range in.Files {
		for _, s := range pieces(f) {
			if s.bytes == 0 || !shared(f, s, p) {
				continue
			}
			across := (f.Info.Grid.Width + s.width - 1) / s.width
			down := (f.Info.Grid.Height + s.height - 1) / s.height
			rows := (2*min(p.WindowHeight, p.Height)+2*p.Overlap+s.height-1)/s.height + 2
			need += float64(min(rows, down)) * float64(across) * float64(s.planes) * float64(s.bytes)
		}
	}
	return bytesOf(need)
}

// Shared reports whether more than one block needs some stored piece of the file.
func Shared(f *resolve.File, blocks block.Plan) bool {
	return slices.ContainsFunc(pieces(f), func(s stored) bool { return s.bytes > 0 && shared(f, s, blocks) })
}

// shared reports whether more than one block needs some piece.
func shared(f *resolve.File, s stored, p block.Plan) bool {
	if p.Overlap > 0 && p.Count() > 1 {
		return true
	}
	cols := p.Cols() > 1 && (mod(p.WindowWidth, s.width) != 0 || mod(f.ColOffset, s.width) != 0)
	rows := p.Rows() > 1 && (mod(p.WindowHeight, s.height) != 0 || mod(f.RowOffset, s.height) != 0)
	return cols || rows
}
