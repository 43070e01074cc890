package apply

import (
	"fmt"
	"time"

	"leat/expr"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/stats"
	"leat/timing"
	"leat/worker"
)

// Result describes a finished run.
type Result struct {
	Plan    *Plan
	Outputs []OutputResult // in the order of their names
	Timings timing.Summary
	Wall    time.Duration
	Blocks  int
	Resumed int // blocks of an earlier run
	Pixels  int64
	// Workers is the status of worker processes: which there were, how many were lost, how many
	// blocks were retried; nil if there were none.
	Workers *worker.Status
}

// OutputResult describes a finished output.
type OutputResult struct {
	Name, Path string
	Type       ndarray.DType
	Bands      []BandResult
	Nodata     *ndarray.Scalar
	Bytes      int64 // size of the file, or of all Files
	// Coding describes how the pixels are stored: "deflate level 6, predictor 2" for GeoTIFF, the
	// format and its options for others.
	Coding    string
	Tiles     int
	Overviews []raster.Size
	// Counts are those of an expression; all 0 for a Func.
	Counts expr.Counts
	// Warnings are sentences for users.
	Warnings []string
	// Format is "GTiff" or GDAL's short name of another format, and Options are its creation
	// options. Files are the names of the output's files in its directory; they are not listed for
	// GeoTIFF.
	Format  string
	Options []string
	Files   []string
}

// BandResult holds the statistics of one band; Moments.Total is 0 if the job asked for none.
type BandResult struct {
	Name    string
	Moments stats.Moments
	Bins    stats.Bins
	Median  float64
	Mode    float64
}

// String returns one line: the number of outputs and blocks, and the time.
func (r *Result) String() string {
	s := fmt.Sprintf("%s, %s, %.1f Mpixel in %.2f s", units.Count(len(r.Outputs), "output"), units.Count(r.Blocks, "block"),
		float64(r.Pixels)/1e6, r.Wall.Seconds())
	if r.Resumed > 0 {
		s += fmt.Sprintf(" (%d from an earlier run)", r.Resumed)
	}
	return s
}
