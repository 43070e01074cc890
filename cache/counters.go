package cache

import (
	"sync/atomic"
	"unsafe"
)

// counterWords are the counters that one kind of writers changes.
type counterWords = [counters]atomic.Uint64

// countersOf returns the counters at an offset of page 0.
func countersOf(page []byte, at int64) *counterWords {
	return (*counterWords)(unsafe.Pointer(&page[at : at+8*counters][0]))
}

// sharedWords are the words of page 0, but for the tail, that processes change.
type sharedWords struct {
	atomic *counterWords  // of this process and others that count by atomic additions
	plain  *counterWords  // of processes that count by plain stores
	wait   *atomic.Uint64 // see exclusiveWait
}

// sharedWordsOf returns the words of a page of that version. A cache of version 1 has no writers by
// plain stores.
func sharedWordsOf(page []byte, version uint32) sharedWords {
	s := sharedWords{countersOf(page, countersAt), new(counterWords), new(atomic.Uint64)}
	if version > oldest {
		s.plain, s.wait = countersOf(page, plainAt), wordAt(page, waitAt)
	}
	return s
}

// counter returns the sum of a counter over all processes.
func (s *sharedWords) counter(which int) int64 {
	return int64(s.atomic[which].Load() + s.plain[which].Load())
}
