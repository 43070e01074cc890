//go:build unix

package index

import (
	"errors"
	"fmt"
	"time"

	"leat/internal/fault"
)

// Entry is a pinned object: it is not evicted before Unpin.
type Entry struct {
	Object
	l    *Index
	rec  uint32
	seq  uint64
	slot uint32
}

// Find finds an object, pins it and updates its time of use. It returns nil without an error if the
// object is not there. The error is the system's if memory to map the index is missing: whether the
// object is there is then unknown.
func (l *Index) Find(k Key) (e *Entry, err error) {
	err = l.guard(func() error {
		e, err = l.find(k)
		e.use()
		return err
	})
	return e, err
}

// Peek is Find without an update of the time of use.
func (l *Index) Peek(k Key) (e *Entry, err error) {
	err = l.guard(func() error {
		e, err = l.find(k)
		return err
	})
	return e, err
}

// Has reports whether an object can be found. It neither pins it nor updates its time of use. It
// returns false where Find returns an error.
func (l *Index) Has(k Key) (has bool) {
	_ = l.guard(func() error {
		_, r, _, err := l.search(k)
		has = r != nil && r.intact(r.seq.Load())
		return err
	})
	return has
}

// use updates the time of use. The entry may be nil.
func (e *Entry) use() {
	if e == nil {
		return
	}
	now := time.Now().UnixNano()
	if before := e.l.record(e.rec).used.Swap(now); before > 0 && now > before {
		e.l.noteInterval(now - before)
	}
}

func (l *Index) find(k Key) (*Entry, error) {
	for range 100 { // a record found may be evicted before it is pinned
		i, r, _, err := l.search(k)
		if r == nil {
			return nil, err
		}
		e, err := l.pinned(i, r)
		if errors.Is(err, errDamaged) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if e != nil {
			if e.Key == k {
				return e, nil
			}
			e.Unpin()
		}
	}
	return nil, nil
}

// pinned pins a record and then checks that it is still valid. Eviction marks the record and then
// reads the pins, so that one of the two sees the other.
func (l *Index) pinned(i uint32, r *record) (*Entry, error) {
	seq := r.seq.Load()
	if byte(seq) != stateValid {
		return nil, nil
	}
	fault.Point("index.pinning")
	slot, err := l.own.pin(i)
	if err != nil {
		return nil, err
	}
	if r.seq.Load() != seq {
		l.own.unpin(slot)
		return nil, nil
	}
	if !r.intact(seq) {
		l.own.unpin(slot)
		return nil, l.damaged()
	}
	o, err := l.read(r)
	if err != nil {
		l.own.unpin(slot)
		return nil, err
	}
	return &Entry{Object: o, l: l, rec: i, seq: seq, slot: slot}, nil
}

// FindLocked is Find for a caller that holds the key's lock: it misses no valid record.
func (l *Index) FindLocked(k Key) (e *Entry, err error) {
	err = l.guard(func() error {
		// Nobody else adds a record of the key: if there is certainly none, the lock shows nothing
		// more.
		if _, r, certain, err := l.search(k); err != nil || r == nil && certain {
			return err
		}
		unlock, err := l.lockBucket(k.bucket())
		if err != nil {
			return err
		}
		defer unlock()
		e, err = l.find(k)
		e.use()
		return err
	})
	return e, err
}

// Publish makes an object visible after its bytes were written, and replaces the key's earlier
// object. The charge must not exceed that of the reservation, which ends unless Publish returns an
// error. The caller holds the key's lock. The entry is pinned.
func (l *Index) Publish(res *Reservation, o Object) (e *Entry, err error) {
	if res != nil && o.Charge > res.charge {
		return nil, fmt.Errorf("an object takes %d bytes, reserved are %d", o.Charge, res.charge)
	}
	err = l.guard(func() error {
		i, r, err := l.alloc()
		if err != nil {
			return err
		}
		if err := l.write(r, o); err != nil {
			l.put(i)
			return err
		}
		slot, err := l.own.pin(i)
		if err != nil {
			l.put(i)
			return err
		}
		unlock, err := l.lockBucket(o.Key.bucket())
		if err != nil {
			l.own.unpin(slot)
			l.put(i)
			return err
		}
		defer unlock()
		if err := l.mapChain(o.Key.bucket()); err != nil {
			l.own.unpin(slot)
			l.put(i)
			return err
		}
		// From here on the index counts the space: a kill now leaves too much counted.
		res.copying().charge.Store(0)
		if extra := res.charge - o.Charge; extra > 0 {
			l.h.bytes.Add(-extra)
		}
		fault.Point("index.publishing")
		for {
			_, old, _, _ := l.search(o.Key)
			if old == nil {
				break
			}
			seq := old.seq.Load()
			if byte(seq) == stateValid && old.seq.CompareAndSwap(seq, withState(seq, stateStale)) {
				old.used.Store(0)
			}
		}
		// Link the record as a stale one, so that eviction finds it after a kill here. If two
		// records of the key were valid, the older object could come back.
		seq := nextUse(r.seq.Load(), 0) | uint64(r.sum())<<sumShift
		// A search may still be at this record, from when it was in the chain before. It must not
		// take the end of the free list for the end of the chain.
		r.next.Store(l.bucket(r.bucket()).Load())
		r.seq.Store(seq | stateStale)
		l.link(i, r)
		fault.Point("index.linked")
		seq |= stateValid
		r.seq.Store(seq)
		fault.Point("index.published")
		l.own.freeSlot(res.slot)
		e = &Entry{Object: o, l: l, rec: i, seq: seq, slot: slot}
		e.Sound = true
		return nil
	})
	return e, err
}

// Unpin ends the use of the object.
func (e *Entry) Unpin() {
	_ = e.l.guard(func() error { e.l.own.unpin(e.slot); return nil })
}

// SetChecked records when the source was last seen to have this version.
func (e *Entry) SetChecked(t time.Time) {
	e.Checked = t
	_ = e.l.guard(func() error { e.l.record(e.rec).checked.Store(nanos(t)); return nil })
}

// SetSound records that the bytes were verified.
func (e *Entry) SetSound() {
	e.Sound = true
	_ = e.l.guard(func() error { e.l.record(e.rec).epoch.Store(e.l.h.epoch.Load()); return nil })
}

// ClearSound records that the bytes must be verified before they are served again.
func (e *Entry) ClearSound() {
	_ = e.l.guard(func() error { e.l.record(e.rec).epoch.Store(0); return nil })
}

// Discard makes the object unfindable because it is damaged or outdated. Its bytes stay until
// nobody uses it.
func (e *Entry) Discard() {
	_ = e.l.guard(func() error {
		r := e.l.record(e.rec)
		base := withState(e.seq, 0)
		// A record marked for eviction would become valid again, since it is pinned.
		for seq := r.seq.Load(); seq == base|stateValid || seq == base|stateEvicting; seq = r.seq.Load() {
			if r.seq.CompareAndSwap(seq, base|stateStale) {
				r.used.Store(0)
				break
			}
		}
		return nil
	})
}

// Each calls f with every object that can be found, in no particular order, until f returns false.
func (l *Index) Each(f func(Object) bool) error {
	return l.guard(func() error {
		n := l.count()
		for i := uint32(1); i < n; i++ {
			r, err := l.mapped(i)
			if r == nil {
				return err
			}
			e, err := l.pinned(i, r)
			if err != nil && !errors.Is(err, errDamaged) {
				return err
			}
			if e == nil {
				continue
			}
			e.Unpin()
			if !f(e.Object) {
				return nil
			}
		}
		return nil
	})
}
