package outcome

import (
	"leat/ndarray"
	"leat/raster"
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
	Counts Counts
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
	// Polygons is the number of polygons of an output of polygons; nil for others.
	Polygons *int64
}

// Counts are the pixels of all bands of an output that an expression computed.
type Counts struct {
	Pixels  int64 // all
	Invalid int64 // invalid pixels, including those counted by NaN
	NaN     int64 // pixels that the computation made invalid: 0/0, log(-1), a % 0
	Inf     int64 // infinite pixels of float outputs
	// Saturated counts pixels beyond the range of the type, which became its nearest value (in
	// float outputs, infinity).
	Saturated int64
	// NodataCollision counts valid results that equal the nodata value: readers will treat them as
	// invalid.
	NodataCollision int64
}

// BandResult holds the statistics of the pixels of one band, in stored values, before scale and
// offset. Pixels is 0 if the job asked for none.
type BandResult struct {
	Name    string // description of the band; "" if it has none
	Scaling Scaling
	Pixels  int64 // all of them
	Valid   int64 // not masked, nodata, NaN or infinite
	NaN     int64
	// Infinite pixels count in no other field but Pixels and ValidPercent: one of them would make
	// Mean and StdDev useless.
	Infinite     int64
	ValidPercent float64 // share of pixels that are valid, infinite ones included
	// Min, Max, Mean and StdDev, the population standard deviation, are those of the Valid pixels,
	// and meaningless if there are none.
	Min, Max, Mean, StdDev float64
	Histogram              Histogram // no Counts if the job asked for none
	// Median and Mode are exact for 8- and 16-bit integers, else within 1/128 of the value.
	Median, Mode float64
}

// Histogram counts values in equal parts of [Min, Max], the bins. With Direct, each bin is one
// value: bin 0 counts Min, bin 1 counts Min+1, and so on.
type Histogram struct {
	Min, Max float64
	Direct   bool
	Counts   []uint64
}
