package apply

import "math"

// Limits of a job's numbers. They exceed what machines can do, and are low enough that sums of
// them, and products of two, do not overflow.
const (
	maxBlockSide = 1 << 24       // pixels of a block, and of its margin on each side
	maxWorkers   = 1 << 20       // workers, and readers
	maxGridSide  = math.MaxInt32 // pixels of the job's grid, as of a TIFF
)

// bytesOf converts an estimate of bytes to an integer, limited to the largest one.
func bytesOf(estimate float64) int64 {
	if estimate >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(estimate)
}
