package cache

import (
	"sync/atomic"
	"unsafe"
)

// countersOf returns the counters in page 0.
func countersOf(page []byte) *[counters]atomic.Uint64 {
	return (*[counters]atomic.Uint64)(unsafe.Pointer(&page[countersAt : countersAt+8*counters][0]))
}
