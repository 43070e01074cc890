package raster

import (
	"context"
	"io"
)

// Range is a part of a file: Bytes bytes from byte Offset on.
type Range struct{ Offset, Bytes int64 }

// RangeLister is a Source that lists the bytes of its file that a read takes, so that a remote
// store can fetch them together.
type RangeLister interface {
	// Ranges returns the ranges of the file that Read takes for the bands (counted from 1, in any
	// order) of window w, which lies inside the raster, and, with mask, those that ReadMask takes
	// when the mask is in the same file. They are ordered, do not overlap, and lie inside the file.
	// The header is not among them. Ranges may read the tables of tile offsets.
	Ranges(ctx context.Context, bands []int, w Window, mask bool) ([]Range, error)
}

// Prefetcher is an io.ReaderAt over remote bytes, which are better requested together. A driver
// that reads from one calls Fetch before each read.
type Prefetcher interface {
	io.ReaderAt
	// Fetch starts to fetch the ranges and returns at once. Until release is called, ReadAt of
	// these bytes sends no further request: it waits for the fetch and returns its error. release
	// is called once, by any goroutine.
	//
	// If skip is not nil, Fetch calls it for each range that it does not hold, and does not fetch
	// those for which skip returns true. skip must return at once and not call the Prefetcher.
	Fetch(ranges []Range, skip func(Range) bool) (release func())
}
