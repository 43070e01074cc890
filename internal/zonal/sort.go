package zonal

import (
	"slices"

	"leat/ndarray"
)

// appendKeys appends the keys of a row.
func appendKeys[T ndarray.Real](dst []uint64, row []T) []uint64 {
	n := len(dst)
	dst = slices.Grow(dst, len(row))[:n+len(row)]
	keys := dst[n:]
	switch r := any(row).(type) {
	case []float32:
		for i, v := range r {
			keys[i] = keyOf(v)
		}
	case []float64:
		for i, v := range r {
			keys[i] = keyOf(v)
		}
	case []uint64:
		copy(keys, r)
	default:
		for i, v := range row {
			keys[i] = uint64(int64(v)) ^ 1<<63
		}
	}
	return dst
}

// sortKeys returns the sorted keys, and the slice that it did not sort into. Long slices are sorted
// byte by byte, except for bytes that all keys share.
func sortKeys(keys, spare []uint64) (sorted, other []uint64) {
	if len(keys) < 512 {
		slices.Sort(keys)
		return keys, spare
	}
	var counts [8][256]uint32
	for _, k := range keys {
		for b := range counts {
			counts[b][byte(k>>(8*b))]++
		}
	}
	spare = slices.Grow(spare[:0], len(keys))[:len(keys)]
	for b := range counts {
		c := &counts[b]
		if c[byte(keys[0]>>(8*b))] == uint32(len(keys)) {
			continue
		}
		at := uint32(0)
		for i, n := range c {
			c[i] = at
			at += n
		}
		for _, k := range keys {
			i := byte(k >> (8 * b))
			spare[c[i]] = k
			c[i]++
		}
		keys, spare = spare, keys
	}
	return keys, spare
}
