package apply

import "math"

// bytesOf converts an estimate of bytes to an integer, limited to the largest one.
func bytesOf(estimate float64) int64 {
	if estimate >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(estimate)
}
