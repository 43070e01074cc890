package apply

import (
	"time"

	"leat/expr"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/geotiff"
	"leat/raster/stats"
	"leat/timing"
	"leat/worker"
)

// Result tells what a run did.
type Result struct {
	Plan    *Plan
	Outputs []OutputResult // in the order of their names
	Timings timing.Summary
	Wall    time.Duration
	Blocks  int
	Resumed int // blocks that an earlier run did
	Pixels  int64
	// Outside tells of workers in other processes: which there were, how many were lost, how many blocks were given out again; nil where there
	// were none.
	Outside *worker.Status
}

// OutputResult describes a finished output.
type OutputResult struct {
	Name, Path string
	Type       ndarray.DType
	Bands      []BandResult
	Nodata     *ndarray.Scalar
	Bytes      int64 // of the file
	Coding     geotiff.Coding
	Tiles      int
	Overviews  []raster.Size
	// Counts are those of an expression; all 0 for a Func.
	Counts expr.Counts
	// Warnings are sentences for people.
	Warnings []string
}

// BandResult holds the statistics of one band; Moments.Total is 0 when none were wanted.
type BandResult struct {
	Name    string
	Moments stats.Moments
	Bins    stats.Bins
	Median  float64
	Mode    float64
}
