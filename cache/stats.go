//go:build unix

package cache

// Stats describes a cache. Its counters are those of all processes since the cache was created,
// except for a cache that was preserved before it was opened: then they are of this Cache alone.
type Stats struct {
	Slots     int64 // n
	Bytes     int64 // allocated bytes of the file: page 0, index, records
	MaxBytes  int64 // the limit, 0 for none
	Frozen    bool
	Preserved bool

	Stored int64 // entries put
	// Puts refused because the slot was filled, because another put to it ended first, because the
	// cache was frozen, beyond MaxBytes, and without disk space or beyond the largest file of the
	// process.
	RefusedFilled, RefusedRace, RefusedFrozen, RefusedFull, RefusedNoSpace int64

	Bad      int64 // reads of damaged records
	Repaired int64 // damaged records replaced by a Put
	Faults   int64 // faults of the mapping, returned as misses

	// DeadBytes is the space of records that no slot refers to, including running puts. After
	// repairs it is a lower bound; Check counts exactly.
	DeadBytes int64
}

// Stats returns the counters. They are not one atomic snapshot.
func (c *Cache) Stats() (Stats, error) {
	if !c.drainGate.enter(0) {
		return Stats{}, ErrClosed
	}
	defer c.drainGate.leave(0)
	s := Stats{Slots: c.h.n, MaxBytes: c.h.maxBytes}
	_, err := c.guard(func() error {
		at := c.shared.counter
		live := at(countStoredBytes)
		w := c.tail.Load()
		s.Bytes, s.Frozen = int64(w&^frozen), w&frozen != 0
		s.Stored, s.RefusedFilled, s.RefusedRace = at(countStored), at(countFilled), at(countLost)
		s.RefusedFrozen, s.RefusedFull, s.RefusedNoSpace = at(countFrozen), at(countFull), at(countNoSpace)
		s.Bad, s.Repaired, s.Faults = at(countBad), at(countRepaired), at(countFaults)
		if !c.readOnly {
			s.DeadBytes = max(s.Bytes-c.h.base()-live, 0)
		}
		return nil
	})
	_, s.Preserved = c.seal()
	return s, err
}
