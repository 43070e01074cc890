//go:build unix

package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// spare is the room of puts of this process that failed when other records stood behind theirs already. The next ones take it. On a full disk
// every put of every writer fails, mostly not as the last of the file: the tail would run away to the limit, and the cache be frozen for good
// by a disk that was full for a while. As it is, the dead room of one process is bounded by some times what was in flight at once. When it closes the cache
// what is not the last of the file stays dead, as does all that a killed process had.
//
// No slot ever led to it, and nobody else writes there: whoever reserved room has it alone.
type spare struct {
	any  atomic.Bool // there is some: others need not lock
	mu   sync.Mutex
	list []extent // by offset, none adjacent to another; slot is not used
}

// take gives a record the first room that it fits into. most is the end of the largest file that may be.
func (s *spare) take(r *record, most int64) bool {
	if !s.any.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.list {
		e := &s.list[k]
		if r.length > e.to-e.from-recordHead || e.from+recordHead+r.length > most {
			continue
		}
		r.offset = e.from
		if e.from += r.room(); e.from == e.to {
			s.list = slices.Delete(s.list, k, k+1)
			s.any.Store(len(s.list) > 0)
		}
		return true
	}
	return false
}

// add keeps room, joined with what is beside it.
func (s *spare) add(e extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := slices.BinarySearchFunc(s.list, e.from, func(o extent, from int64) int { return int(min(max(o.from-from, -1), 1)) })
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

// giveUp moves the tail back over spare room that is the last of the file. It touches the mapping.
func (s *spare) giveUp(tail *atomic.Uint64) {
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
