package apply

import (
	"time"

	"leat/expr"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/geotiff"
	"leat/raster/stats"
	"leat/timing"
)

// Result tells what a run did.
type Result struct {
	Plan    *Plan
	Outputs []OutputResult // in the order of their names
	Timings timing.Summary
	Wall    time.Duration
	Blocks  int
	Pixels  int64
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
