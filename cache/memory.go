package cache

import "fmt"

// checkMemory refuses to take memory for an entry when the machine has less: the runtime ends a process that asks for so much, and the length
// of a record stands in a file that anybody may have made.
func checkMemory(i, length int64) error {
	if length <= 1<<30 || length <= memory() {
		return nil
	}
	return fmt.Errorf("cache: entry %d has %d bytes, and this process may have %d of memory: read it on a larger machine, or raise its limit (ulimit -v, or that of its job or container)", i, length, memory())
}
