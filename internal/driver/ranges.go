package driver

import (
	"cmp"
	"slices"

	"leat/raster"
)

// SortRanges sorts ranges by offset in place, merges those that overlap, but not adjacent ones, and
// drops empty ones.
func SortRanges(ranges []raster.Range) []raster.Range {
	slices.SortFunc(ranges, func(a, b raster.Range) int { return cmp.Compare(a.Offset, b.Offset) })
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

// RangeBytes returns the sum of the sizes.
func RangeBytes(ranges []raster.Range) int64 {
	var n int64
	for _, r := range ranges {
		n += r.Bytes
	}
	return n
}
