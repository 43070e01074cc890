//go:build unix

package ledger

import (
	"sync/atomic"
	"unsafe"

	"leat/internal/fault"
)

// Limits are what one process accepts for all of them together.
type Limits struct {
	Bytes, Files int64
}

// Room is a part of the directory's room that belongs to one copy under way.
type Room struct {
	l      *Ledger
	slot   uint32
	charge int64
}

// Reserve takes charge bytes (a multiple of the disk's block) and one file, if that stays within the limits. It neither waits nor evicts. taken is false where there is no room.
func (l *Ledger) Reserve(charge int64, lim Limits) (r *Room, taken bool, err error) {
	err = l.guard(func() error {
		p := l.own
		p.mu.Lock()
		k := len(p.copies)
		if k == 0 {
			p.mu.Unlock()
			return ErrFull
		}
		slot := p.copies[k-1]
		p.copies = p.copies[:k-1]
		p.mu.Unlock()
		c := at[copying](p.data, copiesAt+int(slot)*copySize)
		c.place = Place{}
		if !raise(&l.h.files, 1, lim.Files) {
			p.spare(slot)
			return nil
		}
		if !raise(&l.h.bytes, charge, lim.Bytes) {
			l.h.files.Add(-1)
			p.spare(slot)
			return nil
		}
		fault.Point("ledger.reserved")
		c.charge.Store(charge)
		r, taken = &Room{l: l, slot: slot, charge: charge}, true
		return nil
	})
	return r, taken, err
}

// raise adds n to a count unless it would pass the limit.
func raise(count interface {
	Load() int64
	CompareAndSwap(old, new int64) bool
}, n, limit int64) bool {
	for {
		have := count.Load()
		if n > limit-have {
			return false
		}
		if count.CompareAndSwap(have, have+n) {
			return true
		}
	}
}

func (p *process) spare(slot uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copies = append(p.copies, slot)
}

func (r *Room) copying() *copying { return at[copying](r.l.own.data, copiesAt+int(r.slot)*copySize) }

// Charge is how many bytes are reserved.
func (r *Room) Charge() int64 { return r.charge }

// Grow takes n bytes more, if that stays within the limits.
func (r *Room) Grow(n int64, lim Limits) (taken bool) {
	_ = r.l.guard(func() error {
		if taken = raise(&r.l.h.bytes, n, lim.Bytes); taken {
			r.charge += n
			r.copying().charge.Store(r.charge)
		}
		return nil
	})
	return taken
}

// Shrink gives n bytes back, which are not taken on the disk.
func (r *Room) Shrink(n int64) {
	_ = r.l.guard(func() error {
		r.charge -= n
		r.copying().charge.Store(r.charge)
		r.l.h.bytes.Add(-n)
		return nil
	})
}

// Writes says where the bytes are going to lie, before the first is there: should the process die, they are freed.
func (r *Room) Writes(p Place) {
	_ = r.l.guard(func() error {
		c := r.copying()
		c.place.Offset, c.place.Ext = p.Offset, p.Ext
		at[atomic.Uint64](r.l.own.data, copiesAt+int(r.slot)*copySize+int(unsafe.Offsetof(c.place)+unsafe.Offsetof(c.place.ID))).Store(p.ID) // last: half of a place is none
		return nil
	})
}

// Abandon ends a copy whose bytes could not be freed: they stay counted until a process opens the directory alone, which checks the books then.
func (r *Room) Abandon() {
	_ = r.l.guard(func() error {
		// First the mark: a kill between the two has the next one try once more.
		r.l.h.unclean.Store(1)
		fault.Point("ledger.abandoning")
		r.copying().charge.Store(0)
		return nil
	})
	r.l.own.spare(r.slot)
}

// Release gives the room back. The bytes must have been freed.
func (r *Room) Release() {
	_ = r.l.guard(func() error {
		r.copying().charge.Store(0)
		r.l.h.files.Add(-1)
		r.l.h.bytes.Add(-r.charge)
		return nil
	})
	r.l.own.spare(r.slot)
}
