//go:build unix

package cache

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"leat/internal/sysmem"
)

// checkMemory returns an error for an entry larger than the available memory: such an allocation
// would end the process, and the length comes from a file that may be damaged.
func checkMemory(i, length int64) error {
	if length <= 1<<30 || length <= memory() {
		return nil
	}
	return fmt.Errorf("entry %d has %d bytes, this process may use %d of memory", i, length, memory())
}

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
