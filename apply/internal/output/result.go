package output

import (
	"leat/apply/outcome"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/stats"
)

// Result describes a finished output: see apply.OutputResult.
type Result struct {
	Name, Path string
	Type       ndarray.DType
	Bands      []BandResult
	Nodata     *ndarray.Scalar
	Bytes      int64
	Coding     string
	Tiles      int
	Overviews  []raster.Size
	Warnings   []outcome.Note
	Format     string
	Options    []string
	Files      []string
}

// BandResult holds the statistics of one band; Moments.Total is 0 if the job asked for none.
type BandResult struct {
	Name    string
	Moments stats.Moments
	Bins    stats.Bins
	Median  float64
	Mode    float64
}
