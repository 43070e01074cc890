//go:build unix

package ledger

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
	// sample is how many records are looked at for old ones: with fewer objects, the least recently used ones are found exactly. 2 MiB of the index, 0.3 ms.
	sample = 8192
	// batch is how many are evicted together, so that the pins of all processes are read once for them.
	batch = 4
)

// Evict frees the objects that were not used for longest until enough says that it is enough, or none is left that nobody uses. It returns how many went.
func (l *Ledger) Evict(enough func() bool) (n int, err error) {
	l.evictMu.Lock()
	defer l.evictMu.Unlock()
	err = l.guard(func() error {
		looked, swept := uint32(0), false // since one went
		for !enough() {
			if len(l.olds) == 0 {
				switch {
				case looked < l.h.next.Load():
				case swept:
					return nil // all of them were looked at, and nobody's was left
				default: // those that a process uses which died meanwhile
					if err := l.sweepDead(); err != nil {
						return err
					}
					l.joins.Store(0)
					looked, swept = 0, true
				}
				var err error
				if l.olds, err = l.oldest(); err != nil {
					return err
				}
				looked += sample
				continue
			}
			k := min(batch, len(l.olds))
			gone, err := l.evictSome(l.olds[:k], enough)
			if n += gone; err == nil && enough() {
				return nil // those that stay are the next ones
			}
			l.olds = l.olds[k:]
			if err != nil {
				return err
			}
			if gone > 0 {
				looked, swept = 0, false
			}
		}
		return nil
	})
	return n, err
}

// joinRoom is what is evicted at least for a process that finds no place on the disk for its own file: some times as much as that takes.
const joinRoom = 1 << 20

// makeRoom evicts objects for a process that finds no place on the disk to join. Without it nobody could remove anything just when it is most needed. It reports
// whether any went.
func (l *Ledger) makeRoom() bool {
	// Should this process die meanwhile, there is no file of it by which the next one would know.
	if l.guard(func() error { l.h.unclean.Store(1); return nil }) != nil {
		return false
	}
	before, _ := l.Taken()
	n, err := l.Evict(func() bool {
		now, _ := l.Taken()
		return before-now >= joinRoom
	})
	return n > 0 && err == nil
}

// oldest returns objects that nobody seems to use, those first that were not used for longest.
func (l *Ledger) oldest() ([]candidate, error) {
	n := l.h.next.Load()
	if n <= 1 {
		return nil, nil
	}
	used, err := l.inUse(n)
	if err != nil {
		return nil, err
	}
	first, look := uint32(0), n-1
	if look > sample {
		first, look = (l.h.hand.Add(sample)-sample)%(n-1), sample
	}
	olds := l.olds[:0:cap(l.olds)]
	for i := range look {
		j := 1 + (first+i)%(n-1)
		r := l.record(j)
		if r == nil || used.has(j) {
			continue
		}
		seq := r.seq.Load()
		switch byte(seq) {
		case stateValid:
			olds = append(olds, candidate{j, seq, r.used.Load()})
		case stateStale, stateEvicting:
			olds = append(olds, candidate{j, seq, 0})
		}
	}
	slices.SortFunc(olds, func(a, b candidate) int {
		switch {
		case a.used < b.used:
			return -1
		case a.used > b.used:
			return 1
		}
		return 0
	})
	return olds, nil
}

// marked is a candidate whose key's lock is held, and that nobody finds any more.
type marked struct {
	candidate
	r      *record
	unlock func()
}

// evictSome evicts those of the candidates that nobody uses, until it is enough.
func (l *Ledger) evictSome(olds []candidate, enough func() bool) (gone int, err error) {
	var marks []marked
	for _, c := range olds {
		m, err := l.mark(c)
		if err != nil {
			stayAll(marks)
			return 0, err
		}
		if m.r != nil {
			marks = append(marks, m)
		}
	}
	return l.evictMarked(marks, enough)
}

// stayAll has marked objects be found again, unless they were discarded meanwhile.
func stayAll(marks []marked) {
	for _, m := range marks {
		m.r.seq.CompareAndSwap(as(m.seq, stateEvicting), m.seq)
		m.unlock()
	}
}

// evictMarked evicts those of the marked objects that nobody uses, until it is enough. The others stay.
func (l *Ledger) evictMarked(marks []marked, enough func() bool) (gone int, err error) {
	if len(marks) == 0 {
		return 0, nil
	}
	defer func() { stayAll(marks) }()
	fault.Point("ledger.marked")
	pinned := map[uint32]bool{}
	for _, m := range marks {
		pinned[m.rec] = false
	}
	if err := l.pinnedBy(pinned); err != nil {
		return gone, err
	}
	fault.Point("ledger.pins read")
	stay := marks[:0]
	for i, m := range marks {
		if pinned[m.rec] || enough() && byte(m.seq) == stateValid {
			stay = append(stay, m)
			continue
		}
		if err := l.end(m); err != nil {
			marks[i].seq = as(m.seq, stateStale) // its bytes may have gone
			marks = append(stay, marks[i:]...)
			return gone, err
		}
		gone++
	}
	marks = stay
	return gone, nil
}

// mark takes the lock of a candidate's key and has it found no more. Without a record: it changed, or somebody else is at it.
func (l *Ledger) mark(c candidate) (marked, error) {
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
	// With the lock nobody else evicts it; it may have gone, or been replaced, before.
	if seq := r.seq.Load(); seq != c.seq || r.key != key || !r.seq.CompareAndSwap(seq, as(seq, stateEvicting)) {
		unlock()
		return marked{}, nil
	}
	if byte(c.seq) == stateEvicting {
		c.seq = as(c.seq, stateStale) // somebody died at it
	}
	return marked{c, r, unlock}, nil
}

// end frees the bytes of a marked object and its record: in this order, for after a kill the next one finds it in its chain and goes on.
func (l *Ledger) end(m marked) error {
	charge := m.r.charge
	if err := l.free(m.r.place, charge); err != nil {
		return err
	}
	fault.Point("ledger.freed")
	unlock, err := l.lockBucket(m.r.key.bucket())
	if err != nil {
		return err
	}
	func() {
		defer unlock() // also after a fault
		l.unlink(m.rec, m.r)
	}()
	fault.Point("ledger.unlinked")
	l.put(m.rec)
	l.h.files.Add(-1)
	l.h.bytes.Add(-charge)
	m.unlock()
	return nil
}

// Drop unpins an object and evicts it, if nobody else uses it. Of several that drop their last uses of it together, one evicts it.
func (e *Entry) Drop() (gone bool, err error) {
	e.Unpin()
	err = e.l.guard(func() error {
		r := e.l.record(e.rec)
		waited := time.Duration(0)
		for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
			seq := r.seq.Load()
			if seq>>stateBits != e.seq>>stateBits {
				return nil // it has gone
			}
			m, err := e.l.mark(candidate{e.rec, seq, r.used.Load()})
			if err != nil {
				return err
			}
			if m.r != nil {
				n, err := e.l.evictMarked([]marked{m}, func() bool { return false })
				gone = n > 0
				return err
			}
			// Who has it marked may have seen the pin that ended just now, and leave it: only a look after that one tells whether it is still in use. The lock
			// of one that was replaced is held by who copies the new version, which may take long; it is among the first that go.
			if byte(seq) == stateStale || waited > lockPatience {
				return nil
			}
			fault.Point("ledger.drop waits")
			time.Sleep(pause)
			waited += pause
		}
	})
	return gone, err
}
