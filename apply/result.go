package apply

import (
	"strings"
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
	Bytes      int64          // of the file, or of all Files
	Coding     geotiff.Coding // of GeoTIFF
	Tiles      int
	Overviews  []raster.Size
	// Counts are those of an expression; all 0 for a Func.
	Counts expr.Counts
	// Warnings are sentences for people.
	Warnings []string
	// Format is "GTiff" or GDAL's short name of another, and Options its creation options. Files are the names that the output consists of, in its folder; those
	// of GeoTIFF are not listed.
	Format  string
	Options []string
	Files   []string
}

// CodingText says how the output's pixels are stored, as far as leat knows.
func (o *OutputResult) CodingText() string {
	if o.Format != "GTiff" {
		return strings.Join(append([]string{o.Format}, o.Options...), " ")
	}
	return o.Coding.String()
}

// BandResult holds the statistics of one band; Moments.Total is 0 when none were wanted.
type BandResult struct {
	Name    string
	Moments stats.Moments
	Bins    stats.Bins
	Median  float64
	Mode    float64
}
