//go:build unix

package index

import (
	"context"

	"leat/internal/fault"
)

// rebuild checks all records while no other process uses the directory, and rebuilds chains, free
// list and counts from the intact ones. After a power loss any page of the index may be outdated or
// zero.
func (l *Index) rebuild(ctx context.Context, keep func(Object) bool, tidy func([]Object) error) error {
	l.h.unclean.Store(1)
	n := l.count()
	// A record that can't be mapped must not count as a damaged one.
	if err := l.mapAll(n); err != nil {
		return err
	}
	clear(l.head[bucketsAt:])
	l.h.free.Store(0)
	l.h.next.Store(max(n, 1))
	more := make(bits, n/64+1) // records that hold text of an intact one
	for i := uint32(1); i < n; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := l.record(i)
		if r == nil {
			return ErrFull
		}
		if byte(r.seq.Load()) == stateValid && l.isWhole(r, n, more) && keep(l.readMapped(r)) &&
			l.resolveDuplicate(r, more) {
			for j := r.more.Load(); j != 0; j = l.record(j).more.Load() {
				more.flip(j)
			}
			l.link(i, r)
			continue
		}
		// A record with text of another is kept until all others are checked.
		if byte(r.seq.Load()) != stateMore {
			r.seq.Store(withState(r.seq.Load(), stateFree))
		}
	}
	var all []Object
	var bytes int64
	for i := uint32(1); i < n; i++ {
		r := l.record(i)
		switch {
		case byte(r.seq.Load()) == stateValid:
			o := l.readMapped(r)
			all = append(all, o)
			bytes += o.Charge
		case !more.has(i):
			r.more.Store(0)
			l.put(i)
		}
	}
	fault.Point("index.rebuilt")
	if err := tidy(all); err != nil {
		return err
	}
	l.h.bytes.Store(bytes) // now that nothing else is on the disk
	l.h.files.Store(int64(len(all)))
	l.h.unclean.Store(0)
	return nil
}

// readMapped is read after mapAll.
func (l *Index) readMapped(r *record) Object {
	o, _ := l.read(r)
	return o
}

// isWhole reports whether a record is consistent, together with exactly the records that its text
// needs.
func (l *Index) isWhole(r *record, n uint32, more bits) bool {
	if !r.intact(r.seq.Load()) || r.key == (Key{}) || r.place.ID == 0 || r.place.ID > l.h.place.Load() || r.size < 0 ||
		r.charge < 0 || r.length > maxTextLen || r.tag > r.length {
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

// resolveDuplicate reports whether to keep a record: if another one of its key was linked already,
// the one checked later stays. Two can be valid if a replacement was not flushed before a power
// loss.
func (l *Index) resolveDuplicate(r *record, more bits) bool {
	i, other, _, _ := l.search(r.key) // all is mapped
	if other == nil {
		return true
	}
	if other.checked.Load() >= r.checked.Load() {
		return false
	}
	_ = l.unlink(i, other)
	for j := other.more.Load(); j != 0; j = l.record(j).more.Load() {
		more.flip(j)
	}
	other.seq.Store(withState(other.seq.Load(), stateFree))
	return true
}

// bits is a set of record numbers.
type bits []uint64

func (b bits) set(i uint32)      { b[i/64] |= 1 << (i % 64) }
func (b bits) flip(i uint32)     { b[i/64] ^= 1 << (i % 64) }
func (b bits) has(i uint32) bool { return b[i/64]&(1<<(i%64)) != 0 }
