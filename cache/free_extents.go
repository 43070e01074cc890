//go:build unix

package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// freeExtents is the space of failed puts of this process that was not at the end of the file any
// more. The next puts reuse it. On a full disk the puts of all writers fail: without reuse, the
// tail would move up to the limit, and a temporarily full disk would freeze the cache for good. So
// a process wastes at most a small multiple of what it writes at once. After its Close, or a kill,
// what is not at the end of the file stays dead.
//
// No slot ever referred to this space, and no other process writes to it.
type freeExtents struct {
	any  atomic.Bool // not empty; otherwise no lock is needed
	mu   sync.Mutex
	list []extent // by offset, no two adjacent; slot is unused
}

// take puts a record into the first extent that it fits. limit is the largest end of the file.
func (s *freeExtents) take(r *record, limit int64) bool {
	if !s.any.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.list {
		e := &s.list[k]
		if r.length > e.to-e.from-recordHead || e.from+recordHead+r.length > limit {
			continue
		}
		r.offset = e.from
		if e.from += r.space(); e.from == e.to {
			s.list = slices.Delete(s.list, k, k+1)
			s.any.Store(len(s.list) > 0)
		}
		return true
	}
	return false
}

// add adds an extent and merges it with adjacent ones.
func (s *freeExtents) add(e extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := slices.BinarySearchFunc(s.list, e.from,
		func(o extent, from int64) int { return int(min(max(o.from-from, -1), 1)) })
	if k < len(s.list) && s.list[k].from == e.to {
		e.to = s.list[k].to
		s.list = slices.Delete(s.list, k, k+1)
	}
	if k > 0 && s.list[k-1].to == e.from {
		s.list[k-1].to = e.to
	} else {
		s.list = slices.Insert(s.list, k, e)
	}
	s.any.Store(true)
}

// trim moves the tail back over free extents at the end of the file. It accesses the mapping.
func (s *freeExtents) trim(tail *atomic.Uint64) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.list) > 0 {
		last := s.list[len(s.list)-1]
		w := tail.Load()
		if w&frozen != 0 || int64(w) != last.to { // the tail of a frozen cache is final
			break
		}
		if tail.CompareAndSwap(w, uint64(last.from)) {
			s.list = s.list[:len(s.list)-1]
		}
	}
	s.any.Store(len(s.list) > 0)
}
