// Package plan decides how a resolved job is run: the size of its blocks, memory, workers and
// readers, and whether it continues from blocks of an earlier run.
//
// [New] makes a [Plan] from a resolved job. A plan is only read.
package plan

import (
	"leat/apply/outcome"
	"leat/block"
	"leat/raster"
)

// Plan holds the decisions that are made before the first pixel is read. Fields that apply.Plan has
// too are documented there.
type Plan struct {
	Grid                                 raster.Grid
	Blocks                               block.Plan
	Workers                              int
	Kind                                 string
	WorkersRead                          bool
	Readers                              int
	Buffers                              int
	CacheBytes, MemoryBytes, BudgetBytes int64
	ForeignBytes                         int64
	AheadBytes                           int64
	Shares                               int   // processes on this machine that share CacheBytes
	GDALBytes                            int64 // GDAL's cache of the rasters it reads, in each process that reads
	Rasterizing                          Rasterizing
	// SharedDir is the directory in which the one that worker processes share is made.
	SharedDir string

	Inputs  []Input
	Outputs []Output
	Notes   []outcome.Note
	// Earlier is the run from which this one continues; nil if there is none. Replaced are blocks
	// of an earlier run that this one does not use; nil if there are none.
	Earlier  *Earlier
	Replaced *Replaced
}

func (p *Plan) note(n outcome.Note) { p.Notes = append(p.Notes, n) }

// Input describes one input file: see apply.PlanInput.
type Input struct {
	Name, Path           string
	Description          string
	Decodes              float64
	Access, Why          string
	NeedBytes, FileBytes int64
	Warped               string
	XScale, YScale       float64
}

// Output describes one output: see apply.PlanOutput.
type Output struct {
	Name, Path string
	Expression string
	Type       string
	Bands      int
	Nodata     string
	Coding     string
	TileWidth  int
	TileHeight int
	Overviews  []raster.Size
	RawBytes   int64
	Format     string
	Options    []string
	Notes      []outcome.Note
}

// Rasterizing says how vectors are rasterized before the first block.
type Rasterizing struct {
	Dir      string // directory in which the run makes its directory for rasters
	DirField string // field of the job that selects Dir, as in outcome.FieldError
	// Parallel is how many are made at once. CacheBytes is the size of GDAL's cache while they are
	// made; 0 leaves it as it is.
	Parallel   int
	CacheBytes int64
}
