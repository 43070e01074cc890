package cache

import "fmt"

// checkMemory returns an error for an entry larger than the available memory: such an allocation
// would end the process, and the length comes from a file that may be damaged.
func checkMemory(i, length int64) error {
	if length <= 1<<30 || length <= memory() {
		return nil
	}
	return fmt.Errorf("entry %d has %d bytes, this process may use %d of memory: read it on a larger machine, or raise its limit (ulimit -v, or that of its job or container)",
		i, length, memory())
}
