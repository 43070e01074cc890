package cache

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// memory is what the machine has, in bytes, swap included.
var memory = sync.OnceValue(func() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	total := float64(i.Totalram) + float64(i.Totalswap)
	return int64(min(total*float64(max(i.Unit, 1)), math.MaxInt64/2))
})
