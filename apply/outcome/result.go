package outcome

import (
	"leat/expr"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/stats"
)

// OutputResult describes a finished output.
type OutputResult struct {
	Name, Path string        // name in the job; path or URL without secrets
	Type       ndarray.DType // of the pixels
	Bands      []BandResult
	Nodata     *ndarray.Scalar // value of invalid pixels; nil if there is none
	Bytes      int64           // size of the file, or of all Files
	// Coding describes how the pixels are stored: "deflate level 1, predictor 2" for GeoTIFF, the
	// format and its options for others.
	Coding    string
	Tiles     int           // stored tiles of all bands and overviews
	Overviews []raster.Size // columns and rows of each, the largest first
	// Counts are those of an expression; all 0 for a function.
	Counts expr.Counts
	// Warnings are about pixels and metadata that are probably not what the user wants.
	Warnings []Note
	// Format is "GTiff" or GDAL's short name of another format, and Options are its creation
	// options. Files are the names of the output's files in its directory; a
	// GeoTIFF without .aux.xml lists none.
	Format  string
	Options []string
	Files   []string
	// Table is set for an output without pixels. It has only Name, Path, Bytes and Format.
	Table bool
}

// BandResult holds the statistics of the valid pixels of one band, in stored values, before scale
// and offset. Moments.Total is 0 if the job asked for none.
type BandResult struct {
	Name    string        // description of the band; "" if it has none
	Moments stats.Moments // counts, extremes, mean, sum of squares
	Bins    stats.Bins    // histogram; no bins if the job asked for none
	// Median and Mode are exact for 8- and 16-bit integers, else within 1/128 of the value.
	Median, Mode float64
}
