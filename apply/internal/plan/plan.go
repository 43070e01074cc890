// Package plan decides how a resolved job is run: the size of its blocks, memory, workers and
// readers, and whether it continues from blocks of an earlier run.
//
// [New] makes a [Plan] from a resolved job. A plan is only read.
package plan

import (
	"leat/apply/outcome"
)

// Plan holds the decisions that are made before the first pixel is read, those that callers see and
// others.
type Plan struct {
	outcome.Plan
	Shares      int   // processes on this machine that share CacheBytes
	OutputBytes int64 // what the outputs of one block may take if a function in another process makes them
	GDALBytes   int64 // GDAL's cache of the rasters it reads, in each process that reads
	// ExtraBuffers is how many of the buffers are used once, while the function is being loaded.
	ExtraBuffers int
	ExtraReads   int // how many files that may wait are read at once, besides one by each reader
	Rasterizing  Rasterizing
	SharedDir    string   // directory in which the one that worker processes share is made
	Earlier      *Earlier // the run from which this one continues; nil if there is none
	// Skipped are the blocks that are not computed, by number; nil if all are.
	Skipped []bool
}

func (p *Plan) note(n outcome.Note) { p.Notes = append(p.Notes, n) }

// Rasterizing says how vectors are rasterized before the first block.
type Rasterizing struct {
	Dir      string // directory in which the run makes its directory for rasters
	DirField string // field of the job that selects Dir, as in outcome.FieldError
	// Parallel is how many are made at once. CacheBytes is the size of GDAL's cache while they are
	// made; 0 leaves it as it is.
	Parallel   int
	CacheBytes int64
}
