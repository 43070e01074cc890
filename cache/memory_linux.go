package cache

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// memory is what this process may have, in bytes: what the machine has, swap included, and what its limit of addresses allows.
func memory() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) != nil || l.Cur > math.MaxInt64 {
		return machineMemory()
	}
	return min(machineMemory(), int64(l.Cur)/2) // the rest is the program's, and the runtime's own
}

var machineMemory = sync.OnceValue(func() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	total := float64(i.Totalram) + float64(i.Totalswap)
	return int64(min(total*float64(max(i.Unit, 1)), math.MaxInt64/2))
})
