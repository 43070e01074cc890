//go:build unix

package index

import (
	"sync/atomic"
	"unsafe"

	"leat/internal/fault"
)

// Limits are one process's limits for the objects of all processes together.
type Limits struct {
	Bytes, Files int64
}

// Reservation is space of the directory that belongs to one copy in progress.
type Reservation struct {
	l      *Index
	slot   uint32
	charge int64
}

// Reserve reserves charge bytes, a multiple of the disk's block, and one file if that stays within
// the limits. It neither waits nor evicts. taken is false if there is no space. The error is
// ErrFull if the process has MaxCopies reservations.
func (l *Index) Reserve(charge int64, lim Limits) (r *Reservation, taken bool, err error) {
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
		if !addWithin(&l.h.files, 1, lim.Files) {
			p.freeSlot(slot)
			return nil
		}
		if !addWithin(&l.h.bytes, charge, lim.Bytes) {
			l.h.files.Add(-1)
			p.freeSlot(slot)
			return nil
		}
		fault.Point("index.reserved")
		c.charge.Store(charge)
		r, taken = &Reservation{l: l, slot: slot, charge: charge}, true
		return nil
	})
	return r, taken, err
}

// addWithin adds n to a count unless the sum would exceed the limit.
func addWithin(count interface {
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

func (p *process) freeSlot(slot uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copies = append(p.copies, slot)
}

func (r *Reservation) copying() *copying {
	return at[copying](r.l.own.data, copiesAt+int(r.slot)*copySize)
}

// Charge returns the number of reserved bytes.
func (r *Reservation) Charge() int64 { return r.charge }

// Grow reserves n more bytes if that stays within the limits.
func (r *Reservation) Grow(n int64, lim Limits) (taken bool) {
	_ = r.l.guard(func() error {
		if taken = addWithin(&r.l.h.bytes, n, lim.Bytes); taken {
			r.charge += n
			r.copying().charge.Store(r.charge)
		}
		return nil
	})
	return taken
}

// Shrink releases n bytes that are not used on the disk.
func (r *Reservation) Shrink(n int64) {
	_ = r.l.guard(func() error {
		r.charge -= n
		r.copying().charge.Store(r.charge)
		r.l.h.bytes.Add(-n)
		return nil
	})
}

// Writes records where the bytes will be. It is called before the first is written, so that they
// are freed if the process dies.
func (r *Reservation) Writes(p Place) {
	_ = r.l.guard(func() error {
		c := r.copying()
		c.place.Offset, c.place.Ext = p.Offset, p.Ext
		// The ID comes last: a place without one is ignored.
		at[atomic.Uint64](r.l.own.data, copiesAt+int(r.slot)*copySize+
			int(unsafe.Offsetof(c.place)+unsafe.Offsetof(c.place.ID))).Store(p.ID)
		return nil
	})
}

// Abandon ends a copy whose bytes could not be freed: they stay counted until a process opens the
// directory alone and checks the index.
func (r *Reservation) Abandon() {
	_ = r.l.guard(func() error {
		// Set unclean first: after a kill in between, the next process tries again.
		r.l.h.unclean.Store(1)
		fault.Point("index.abandoning")
		r.copying().charge.Store(0)
		return nil
	})
	r.l.own.freeSlot(r.slot)
}

// Release releases the reserved space. The bytes must have been freed.
func (r *Reservation) Release() {
	_ = r.l.guard(func() error {
		r.copying().charge.Store(0)
		r.l.h.files.Add(-1)
		r.l.h.bytes.Add(-r.charge)
		return nil
	})
	r.l.own.freeSlot(r.slot)
}
