//go:build unix

package index

import (
	"slices"
	"time"

	"leat/internal/fault"
)

// candidate is an object that may be evicted.
type candidate struct {
	rec  uint32
	seq  uint64
	used int64
}

const (
	// sample is the number of records searched for old objects at a time; with fewer objects the
	// order is exact. The search reads 2 MiB of the index, in 0.3 ms.
	sample = 8192
	// batch is the number of objects evicted together, with one read of the pins of all processes.
	batch = 4
)

// Evict frees the least recently used objects until enough returns true or the rest is in use. It
// returns the number of freed objects. The first object whose bytes can't be freed ends it with a
// RemoveError; those for which that happened before are left out.
func (l *Index) Evict(enough func() bool) (n int, err error) { return l.evictFor(enough, false) }

// EvictForEpochs is Evict with the order of epochCandidates.
func (l *Index) EvictForEpochs(enough func() bool) (n int, err error) {
	return l.evictFor(enough, true)
}

func (l *Index) evictFor(enough func() bool, epochs bool) (n int, err error) {
	f := &failures{}
	n, err = l.evict(enough, epochs, f)
	if err == nil && len(f.list) > 0 && !enough() {
		err = f.list[0]
	}
	return n, err
}

// EvictAll is Evict that goes on after each object whose bytes can't be freed, and returns their
// errors.
func (l *Index) EvictAll(enough func() bool) (n int, failed []*RemoveError, err error) {
	f := &failures{all: true}
	n, err = l.evict(enough, false, f)
	return n, f.list, err
}

func (l *Index) evict(enough func() bool, epochs bool, failed *failures) (n int, err error) {
	l.evictMu.Lock()
	defer l.evictMu.Unlock()
	if epochs {
		// Each copy changes which object is the newest: keep no candidates for the next call.
		l.candidates = l.candidates[:0]
		defer func() { l.candidates = l.candidates[:0] }()
	}
	err = l.guard(func() error {
		examined, swept := uint32(0), false // since the last eviction
		for !enough() {
			if len(l.candidates) == 0 && epochs {
				var err error
				if l.candidates, err = l.epochCandidates(); err != nil {
					return err
				}
				l.candidates = failed.leaveOut(l.candidates)
			}
			if len(l.candidates) == 0 {
				switch {
				case examined < l.count():
				case swept:
					return nil // all were examined, and all are in use
				default: // release the pins of processes that died meanwhile
					if err := l.sweepDead(); err != nil {
						return err
					}
					l.joins.Store(0)
					examined, swept = 0, true
				}
				var err error
				if l.candidates, err = l.oldest(); err != nil {
					return err
				}
				l.candidates = failed.leaveOut(l.candidates)
				examined += sample
				continue
			}
			k := min(batch, len(l.candidates))
			evicted, err := l.evictSome(l.candidates[:k], enough, failed)
			if n += evicted; err == nil && enough() {
				return nil // keep the rest for the next call
			}
			l.candidates = l.candidates[k:]
			if err != nil {
				return err
			}
			if evicted > 0 {
				examined, swept = 0, false
			} else if len(l.candidates) == 0 {
				epochs = false // the whole sample is in use: examine all objects
			}
		}
		return nil
	})
	return n, err
}

// joinSpace is the minimum to evict for a process that finds no disk space for its own file:
// several times the size of that file.
const joinSpace = 1 << 20

// evictForJoin evicts objects for a process that finds no disk space to join, since otherwise no
// process could open a stage on a full disk to free space. It reports whether it evicted any, which
// may be too few.
func (l *Index) evictForJoin() bool {
	// This process has no file yet that would show its death.
	if l.guard(func() error { l.h.unclean.Store(1); return nil }) != nil {
		return false
	}
	before, _ := l.Taken()
	n, err := l.Evict(func() bool {
		now, _ := l.Taken()
		return before-now >= joinSpace
	})
	return n > 0 && err == nil
}

// oldest returns unpinned objects of the next sample, the least recently used first.
func (l *Index) oldest() ([]candidate, error) {
	n := l.count()
	if n <= 1 {
		return nil, nil
	}
	inUse, err := l.inUse(n)
	if err != nil {
		return nil, err
	}
	first, count := uint32(0), n-1
	if count > sample {
		first, count = (l.h.hand.Add(sample)-sample)%(n-1), sample
	}
	found := l.candidates[:0:cap(l.candidates)]
	for i := range count {
		j := 1 + (first+i)%(n-1)
		if c, ok := l.candidate(j, inUse); ok {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		switch {
		case a.used < b.used:
			return -1
		case a.used > b.used:
			return 1
		}
		return 0
	})
	return found, nil
}

// candidate returns record i as a candidate if its object is not pinned.
func (l *Index) candidate(i uint32, inUse bits) (candidate, bool) {
	r := l.record(i)
	if r == nil || inUse.has(i) {
		return candidate{}, false
	}
	seq := r.seq.Load()
	switch byte(seq) {
	case stateValid:
		return candidate{i, seq, r.used.Load()}, true
	case stateStale, stateEvicting:
		return candidate{i, seq, 0}, true
	}
	return candidate{}, false
}

// marked is a candidate in state evicting, whose key is locked.
type marked struct {
	candidate
	r      *record
	unlock func()
	pinned bool // by a live process; see findPinned
}

// evictSome evicts the unpinned candidates until enough returns true.
func (l *Index) evictSome(found []candidate, enough func() bool, failed *failures) (evicted int, err error) {
	var marks []marked
	for _, c := range found {
		m, err := l.mark(c)
		if err != nil {
			unmark(marks)
			return 0, err
		}
		if m.r != nil {
			marks = append(marks, m)
		}
	}
	return l.evictMarked(marks, enough, failed)
}

// unmark makes marked objects valid again, unless they were discarded meanwhile.
func unmark(marks []marked) {
	for _, m := range marks {
		m.r.seq.CompareAndSwap(withState(m.seq, stateEvicting), m.seq)
		m.unlock()
	}
}

// evictMarked evicts the unpinned marked objects until enough returns true, and unmarks the others.
func (l *Index) evictMarked(marks []marked, enough func() bool, failed *failures) (evicted int, err error) {
	if len(marks) == 0 {
		return 0, nil
	}
	defer func() { unmark(marks) }()
	fault.Point("index.marked")
	if err := l.findPinned(marks); err != nil {
		return evicted, err
	}
	fault.Point("index.pins read")
	stay := marks[:0]
	for i, m := range marks {
		if m.pinned || enough() && byte(m.seq) == stateValid {
			stay = append(stay, m)
			continue
		}
		if err := l.remove(m); err != nil {
			goOn := failed.note(m, err)
			m.seq = withState(m.seq, stateStale) // its bytes may be freed already
			stay = append(stay, m)
			if goOn {
				continue
			}
			marks = append(stay, marks[i+1:]...)
			return evicted, err
		}
		evicted++
	}
	marks = stay
	return evicted, nil
}

// mark locks a candidate's key and sets its state to evicting. It returns no record if the
// candidate changed or another process holds the lock.
func (l *Index) mark(c candidate) (marked, error) {
	r := l.record(c.rec)
	if r == nil {
		return marked{}, nil
	}
	key := r.key
	if seq := r.seq.Load(); seq != c.seq || byte(seq) == stateValid && r.used.Load() != c.used {
		return marked{}, nil
	}
	unlock, ok, err := l.LockKey(key)
	if !ok || err != nil {
		return marked{}, err
	}
	// The lock excludes other evictions from here on, not from before.
	if seq := r.seq.Load(); seq != c.seq || r.key != key || !r.seq.CompareAndSwap(seq, withState(seq, stateEvicting)) {
		unlock()
		return marked{}, nil
	}
	if !r.intact(c.seq) {
		r.seq.CompareAndSwap(withState(c.seq, stateEvicting), c.seq)
		unlock()
		_ = l.damaged()
		return marked{}, nil
	}
	if byte(c.seq) == stateEvicting {
		c.seq = withState(c.seq, stateStale) // its evicting process died
	}
	return marked{candidate: c, r: r, unlock: unlock}, nil
}

// remove frees the bytes of a marked object, then its record: after a kill in between, the next
// process finds the record in its chain and continues.
func (l *Index) remove(m marked) error {
	charge := m.r.charge
	if err := l.free(m.r.place, charge); err != nil {
		o, _ := l.read(m.r)
		return &RemoveError{o.Name, err}
	}
	fault.Point("index.freed")
	unlock, err := l.lockBucket(m.r.key.bucket())
	if err != nil {
		return err
	}
	err = func() error {
		defer unlock() // even after a page fault
		return l.unlink(m.rec, m.r)
	}()
	if err != nil {
		return err
	}
	fault.Point("index.unlinked")
	l.put(m.rec)
	l.h.files.Add(-1)
	l.h.bytes.Add(-charge)
	m.unlock()
	return nil
}

// Drop unpins an object and evicts it if nobody else uses it. If several processes drop their last
// pins at the same time, one of them evicts it.
func (e *Entry) Drop() (evicted bool, err error) {
	e.Unpin()
	err = e.l.guard(func() error {
		r := e.l.record(e.rec)
		waited := time.Duration(0)
		for pause := shortPause(); ; {
			seq := r.seq.Load()
			if seq>>stateBits != e.seq>>stateBits {
				return nil // evicted already
			}
			m, err := e.l.mark(candidate{e.rec, seq, r.used.Load()})
			if err != nil {
				return err
			}
			if m.r != nil {
				n, err := e.l.evictMarked([]marked{m}, func() bool { return false }, nil)
				evicted = n > 0
				return err
			}
			// The process that marked it may have seen the pin that ended just now: only a check
			// after that one is conclusive. The key of a replaced object may stay locked by a long
			// copy of the new version; stale objects are evicted first anyway.
			if byte(seq) == stateStale || waited > lockTimeout {
				return nil
			}
			fault.Point("index.drop waits")
			waited += pause.Sleep()
		}
	})
	return evicted, err
}
