//go:build unix

package ledger

import (
	"leat/internal/fault"
)

// rebuild goes through all records while no other process uses the directory, and makes chains, free records and counts anew from those that are whole.
// After a loss of power any page of the index may be an older one, or zeros.
func (l *Ledger) rebuild(keep func(Object) bool, tidy func([]Object) error) error {
	l.h.unclean.Store(1)
	clear(l.head[bucketsAt:])
	l.h.free.Store(0)
	n := min(l.h.next.Load(), l.h.capacity.Load())
	l.h.next.Store(max(n, 1))
	more := make(bits, n/64+1) // records that hold text of a whole one
	for i := uint32(1); i < n; i++ {
		r := l.record(i)
		if r == nil {
			return ErrFull
		}
		if byte(r.seq.Load()) == stateValid && l.whole(r, n, more) && keep(l.read(r)) && l.newest(r, more) {
			for j := r.more.Load(); j != 0; j = l.record(j).more.Load() {
				more.flip(j)
			}
			l.link(i, r)
			continue
		}
		// One that holds text of another stays as it is until it is known whether that other one stays.
		if byte(r.seq.Load()) != stateMore {
			r.seq.Store(as(r.seq.Load(), stateFree))
		}
	}
	var all []Object
	var bytes int64
	for i := uint32(1); i < n; i++ {
		r := l.record(i)
		switch {
		case byte(r.seq.Load()) == stateValid:
			o := l.read(r)
			all = append(all, o)
			bytes += o.Charge
		case !more.has(i):
			r.more.Store(0)
			l.put(i)
		}
	}
	fault.Point("ledger.rebuilt")
	if err := tidy(all); err != nil {
		return err
	}
	l.h.bytes.Store(bytes) // now that there is no more than this
	l.h.files.Store(int64(len(all)))
	l.h.unclean.Store(0)
	return nil
}

// whole tells whether a record makes sense by itself, with those that hold more of its text: as many as that takes, and no other's.
func (l *Ledger) whole(r *record, n uint32, more bits) bool {
	if r.key == (Key{}) || r.place.ID == 0 || r.place.ID > l.h.place.Load() || r.size < 0 || r.charge < 0 || r.length > maxTextLen || r.tag > r.length {
		return false
	}
	j := r.more.Load()
	for left := int(r.length) - textHere; left > 0; left -= textMore {
		if j == 0 || j >= n || more.has(j) {
			return false
		}
		m := l.record(j)
		if m == nil || byte(m.seq.Load()) != stateMore {
			return false
		}
		j = m.more.Load()
	}
	return j == 0
}

// newest tells whether a record is the only one of its key so far, or was compared with its source after the other one, which goes then: both are valid
// where it was not flushed before a loss of power that one of them had been replaced.
func (l *Ledger) newest(r *record, more bits) bool {
	i, other := l.search(r.key)
	if other == nil {
		return true
	}
	if other.checked.Load() >= r.checked.Load() {
		return false
	}
	l.unlink(i, other)
	for j := other.more.Load(); j != 0; j = l.record(j).more.Load() {
		more.flip(j)
	}
	other.seq.Store(as(other.seq.Load(), stateFree))
	return true
}

// bits is a set of records.
type bits []uint64

func (b bits) set(i uint32)      { b[i/64] |= 1 << (i % 64) }
func (b bits) flip(i uint32)     { b[i/64] ^= 1 << (i % 64) }
func (b bits) has(i uint32) bool { return b[i/64]&(1<<(i%64)) != 0 }
