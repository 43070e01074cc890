package raster

import (
	"cmp"
	"context"
	"io"
	"slices"
)

// Range is a piece of a file: Bytes bytes from byte Offset on.
type Range struct{ Offset, Bytes int64 }

// Ranged is a Source that can tell which bytes of its file a read takes, so that they can be brought
// together from where each request takes long.
type Ranged interface {
	// Ranges returns the pieces of the file that Read takes for the bands (counted from 1, in any order) of window w, which lies inside the
	// raster, and, with mask, those that ReadMask takes where the mask is in the same file. They are ordered, overlap nowhere, and lie inside
	// the file; the file's header is not among them. The tables that tell where pixels lie are read for it.
	Ranges(ctx context.Context, bands []int, w Window, mask bool) ([]Range, error)
}

// Fetcher is an io.ReaderAt over bytes that are far away and are better asked for together. A driver that reads from one tells it before each read
// what the read will take.
type Fetcher interface {
	io.ReaderAt
	// Fetch begins to bring the pieces and returns at once. Until release is called, reading them asks for nothing more; it waits for what is
	// under way, and has its errors. release may be called by any goroutine, once.
	Fetch(ranges []Range) (release func())
}

// SortRanges orders ranges by offset and joins those that overlap, in place; those that only touch stay apart. Empty ones are dropped.
func SortRanges(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	out := ranges[:0]
	for _, r := range ranges {
		if r.Bytes <= 0 {
			continue
		}
		if n := len(out); n > 0 && r.Offset < out[n-1].Offset+out[n-1].Bytes {
			out[n-1].Bytes = max(out[n-1].Bytes, r.Offset+r.Bytes-out[n-1].Offset)
			continue
		}
		out = append(out, r)
	}
	return out
}

// RangeBytes is the sum of the sizes.
func RangeBytes(ranges []Range) int64 {
	var n int64
	for _, r := range ranges {
		n += r.Bytes
	}
	return n
}
