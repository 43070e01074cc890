package deflate

// vectors are the instructions by which literals are counted and written, runs are sought, and
// long matches compared. The results do not depend on them.
type vectors int

const (
	portable vectors = iota // the loops in Go
	avx2                    // with BMI2
	avx512                  // with VBMI2
)

// vector is the number of bytes that the routines handle at once.
const vector = 64
