package cache

import (
	"math"

	"golang.org/x/sys/unix"

	"leat/internal/sysmem"
)

// memory returns how many bytes of memory this process may use: those of the machine, with swap,
// within the limits of its control groups and address space. It is only called for large entries,
// and not cached, since limits change.
func memory() int64 {
	limit := sysmem.RAMAndSwap()
	if limit <= 0 {
		limit = math.MaxInt64
	}
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) == nil && l.Cur <= math.MaxInt64 {
		limit = min(limit, int64(l.Cur)/2) // the rest is for the program and the runtime
	}
	return limit
}
