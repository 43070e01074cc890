package outcome

import (
	"time"

	"leat/block"
	"leat/raster"
)

// Plan describes how a job will be run: the decisions that a run makes before it reads the first
// pixel.
type Plan struct {
	Grid   raster.Grid
	Blocks block.Plan
	// SkippedBlocks of Blocks are not computed: the function needs none of their pixels.
	SkippedBlocks int
	// Workers compute. They are goroutines or, if Kind is not empty, processes of that kind, which
	// read their inputs themselves if WorkersRead is set. With OneBlockPerJob there is one for each
	// block.
	Workers     int
	Kind        string
	WorkersRead bool
	NoCopies    bool // idle processes compute no copies of the last blocks (Concurrency.NoCopies)
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
	Notes   []Note // decisions that differ from the request, with reasons
	// Warnings are about probable errors in the job.
	Warnings []Note
	// Replaced are blocks of an earlier run that this run replaces; nil if there are none.
	Replaced *ReplacedBlocks
}

// ComputedBlocks returns the number of blocks that the run computes.
func (p *Plan) ComputedBlocks() int { return p.Blocks.Count() - p.SkippedBlocks }

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
	// Time is when the file was taken; zero if unknown. Item is the number, from 1, of the list's
	// item to which the file belongs, alone or with others; 0 if each file is an item.
	Time time.Time
	Item int
}

// PlanOutput describes one output.
type PlanOutput struct {
	Name, Path string
	Expression string
	Type       string // "from the first block" if unknown
	Bands      int    // 0 if unknown
	Nodata     string
	Scalings   []Scaling // of the bands; empty if their number is unknown
	Coding     string
	TileWidth  int
	TileHeight int
	Overviews  []raster.Size
	RawBytes   int64    // pixels before compression, overviews included; 0 if unknown
	Format     string   // "GTiff", or GDAL's short name of another
	Options    []string // its creation options
	Table      bool     // it has no pixels: only Name, Path and Format are set
	Polygons   bool     // its file holds the polygons of pixels
	Notes      []Note   // what the format does not keep
}

// ReplacedBlocks are blocks of an earlier run that a run replaces because Job.Resume is false.
type ReplacedBlocks struct {
	Paths         []string // of the unfinished outputs
	Blocks, Total int      // Blocks of Total are in all of them
	// Changes are the reasons why Job.Resume could not use the blocks; empty if it could.
	Changes []string
}
