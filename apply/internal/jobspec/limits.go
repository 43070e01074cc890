package jobspec

import "math"

// Limits of a job's numbers. They exceed what machines can do, and are low enough that sums of
// them, and products of two, do not overflow.
const (
	MaxBlockSide = 1 << 24       // pixels of a block, and of its margin on each side
	MaxWorkers   = 1 << 20       // workers, and readers
	MaxGridSide  = math.MaxInt32 // pixels of the job's grid, as of a TIFF
)
