//go:build unix

package ledger

import (
	"fmt"
	"time"

	"leat/internal/fault"
)

// Entry is an object that is pinned: it stays until Unpin, whoever needs room.
type Entry struct {
	Object
	l    *Ledger
	rec  uint32
	seq  uint64
	slot uint32
}

// Find looks an object up and pins it: it is used now. nil without an error: it is not there.
func (l *Ledger) Find(k Key) (e *Entry, err error) {
	err = l.guard(func() error {
		e, err = l.find(k)
		e.use()
		return err
	})
	return e, err
}

// Peek is Find for one who does not use the object: its place among those that are to be evicted stays the same.
func (l *Ledger) Peek(k Key) (e *Entry, err error) {
	err = l.guard(func() error {
		e, err = l.find(k)
		return err
	})
	return e, err
}

// Has tells whether an object can be found. It pins nothing, and is no use of it.
func (l *Ledger) Has(k Key) (has bool) {
	_ = l.guard(func() error {
		_, r := l.search(k)
		has = r != nil
		return nil
	})
	return has
}

// use notes that the object is used now. nil is none.
func (e *Entry) use() {
	if e != nil {
		e.l.record(e.rec).used.Store(time.Now().UnixNano())
	}
}

func (l *Ledger) find(k Key) (*Entry, error) {
	for range 100 { // what is found may just go
		i, r := l.search(k)
		if r == nil {
			return nil, nil
		}
		e, err := l.pinned(i, r)
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

// pinned pins a record if it is valid: first the pin, then the look whether it still is. Who evicts does it in the opposite order, so that
// one of both sees the other.
func (l *Ledger) pinned(i uint32, r *record) (*Entry, error) {
	seq := r.seq.Load()
	if byte(seq) != stateValid {
		return nil, nil
	}
	fault.Point("ledger.pinning")
	slot, err := l.own.pin(i)
	if err != nil {
		return nil, err
	}
	if r.seq.Load() != seq {
		l.own.unpin(slot)
		return nil, nil
	}
	return &Entry{Object: l.read(r), l: l, rec: i, seq: seq, slot: slot}, nil
}

// FindLocked is Find for one who has the key's lock: it misses nothing.
func (l *Ledger) FindLocked(k Key) (e *Entry, err error) {
	err = l.guard(func() error {
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

// Publish makes an object visible whose bytes are at their place, in the room that was reserved for them: no more than that. What had the key before is
// found no more. The caller has the key's lock. Room has ended, unless there is an error. The entry is pinned.
func (l *Ledger) Publish(room *Room, o Object) (e *Entry, err error) {
	if room != nil && o.Charge > room.charge {
		return nil, fmt.Errorf("stage: an object takes %d bytes of %d that were reserved", o.Charge, room.charge)
	}
	err = l.guard(func() error {
		i, r, err := l.take()
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
		// From here it is the index that has the room: a kill now leaves too much counted.
		room.copying().charge.Store(0)
		if extra := room.charge - o.Charge; extra > 0 {
			l.h.bytes.Add(-extra)
		}
		fault.Point("ledger.publishing")
		for {
			_, old := l.search(o.Key)
			if old == nil {
				break
			}
			seq := old.seq.Load()
			if byte(seq) == stateValid && old.seq.CompareAndSwap(seq, as(seq, stateStale)) {
				old.used.Store(0)
			}
		}
		// Into the chain as one that was replaced, for whoever evicts it after a kill here: of two that could be found, the older would come back.
		seq := (r.seq.Load()>>stateBits + 1) << stateBits
		r.seq.Store(seq | stateStale)
		l.link(i, r)
		fault.Point("ledger.linked")
		seq |= stateValid
		r.seq.Store(seq)
		fault.Point("ledger.published")
		l.own.spare(room.slot)
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

// Checked notes that the source was seen to have this version.
func (e *Entry) SetChecked(t time.Time) {
	e.Checked = t
	_ = e.l.guard(func() error { e.l.record(e.rec).checked.Store(nanos(t)); return nil })
}

// SetSound notes that the bytes were found to be right.
func (e *Entry) SetSound() {
	e.Sound = true
	_ = e.l.guard(func() error { e.l.record(e.rec).epoch.Store(e.l.h.epoch.Load()); return nil })
}

// Discard has the object found no more: it is damaged, or its source has another version. Its bytes stay until nobody uses it.
func (e *Entry) Discard() {
	_ = e.l.guard(func() error {
		r := e.l.record(e.rec)
		base := as(e.seq, 0)
		// One that is just marked to be evicted stays, since it is pinned: then it must not be found again.
		for seq := r.seq.Load(); seq == base|stateValid || seq == base|stateEvicting; seq = r.seq.Load() {
			if r.seq.CompareAndSwap(seq, base|stateStale) {
				r.used.Store(0)
				break
			}
		}
		return nil
	})
}

// Each calls f with every object that can be found, in no order.
func (l *Ledger) Each(f func(Object) bool) error {
	return l.guard(func() error {
		n := l.h.next.Load()
		for i := uint32(1); i < n; i++ {
			r := l.record(i)
			if r == nil {
				return nil
			}
			e, err := l.pinned(i, r)
			if err != nil {
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
