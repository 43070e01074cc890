//go:build unix

package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Entry is what Each tells of a filled slot.
type Entry struct {
	Slot   int64
	Offset int64 // of its record in the file
	Length int64 // of its data, in bytes; 0 if Bad
	Bad    bool  // the record is damaged: Get says ErrMiss
}

// Each calls f, which must not close the cache, for every filled slot in ascending order, until f fails or ctx ends. Data are not read, and so not verified: only
// the headers of records are. Its time depends on the room of the index that is in use, not on n.
func (c *Cache) Each(ctx context.Context, f func(Entry) error) error {
	if !c.gate.enter(0) {
		return ErrClosed
	}
	defer c.gate.leave(0)
	return c.eachFilled(ctx, func(i, offset int64) error {
		e := Entry{Slot: i, Offset: offset}
		if faulted, _ := c.guard(func() error {
			r, err := c.readHead(i, offset)
			e.Length, e.Bad = r.length, err != nil
			return nil
		}); faulted {
			e.Length, e.Bad = 0, true
		}
		return f(e)
	})
}

// eachFilled calls f with every filled slot and its offset. It must not be called under guard.
func (c *Cache) eachFilled(ctx context.Context, f func(i, offset int64) error) error {
	b := make([]byte, 64<<10)
	end := slotAt(c.h.n)
	for at := slotAt(0); at < end; {
		from, to, err := dataRange(c.fd, at)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return err
		case err != nil: // a file system that can't tell holes
			from, to = at, end
		case from < 0:
			return nil
		}
		from, to = max(from&^7, at), min(to, end)
		for at = from; at < to; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n, err := preadFull(c.fd, b[:min(int64(len(b)), end-at)], at)
			if err != nil {
				return fmt.Errorf("cache: reading the index of %s: %w", c.name(), err)
			}
			if n &^= 7; n == 0 {
				return nil // cut off
			}
			for k := 0; k < n; k += 8 {
				// Where it is set, the word itself is loaded: a read of bytes is not atomic.
				if le.Uint64(b[k:]) == 0 {
					continue
				}
				i, offset := (at+int64(k)-pageSize)/8, int64(0)
				if faulted, _ := c.guard(func() error { offset = c.loadSlot(i); return nil }); faulted {
					return c.errCut()
				}
				if offset != 0 {
					if err := f(i, offset); err != nil {
						return err
					}
				}
			}
			at += int64(n)
		}
	}
	return nil
}

// Report is what Check found.
type Report struct {
	Slots  int64 // n
	Filled int64 // slots with a sound entry
	Empty  int64
	Bad    int64   // slots whose record is damaged, or shares bytes with another one
	Worst  []int64 // the first 100 of them
	// LiveBytes is the room of sound records, DeadBytes that of records which no slot leads to: of killed writers, of
	// those who came second, and of damaged records that were replaced. Puts in flight count as dead.
	LiveBytes, DeadBytes int64
	Bytes                int64 // of data in sound records
	Preserved            bool  // Preserve has sealed the file
	SealBroken           bool  // and the index is not what was sealed
}

// OK tells whether nothing is damaged.
func (r *Report) OK() bool { return r.Bad == 0 && !r.SealBroken }

// Check reads everything, whatever Options.Verify says, and reports what it finds. The error is for a check that could not be
// done. Other processes may go on putting.
func (c *Cache) Check(ctx context.Context) (*Report, error) {
	if !c.gate.enter(0) {
		return nil, ErrClosed
	}
	defer c.gate.leave(0)
	rep, sum, err := c.examine(ctx, nil)
	if err != nil {
		return nil, err
	}
	if s, ok := c.seal(); ok {
		rep.Preserved = true
		rep.SealBroken = sum != s.index || rep.Filled+rep.Bad != s.entries
	}
	return rep, nil
}

// extent is the room of a record.
type extent struct{ from, to, slot int64 }

// examine verifies all entries; drop, if not nil, is called with the bad ones, which then don't count in the index's checksum. With drop
// an error of the disk ends it: what can't be read at this moment may be sound.
func (c *Cache) examine(ctx context.Context, drop func(i, offset int64) error) (rep *Report, sum uint32, err error) {
	rep = &Report{Slots: c.h.n}
	var extents []extent
	bad := func(i, offset int64) error {
		if rep.Bad++; len(rep.Worst) < 100 {
			rep.Worst = append(rep.Worst, i)
		}
		if drop != nil {
			return drop(i, offset)
		}
		return nil
	}
	done := int64(0)
	err = c.eachFilled(ctx, func(i, offset int64) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		r, sound, err := c.soundRecord(ctx, i, offset)
		if err != nil && (drop != nil || context.Cause(ctx) != nil) {
			return err
		}
		done += r.room()
		c.progress(done)
		if drop == nil {
			sum = sumSlot(sum, i, offset)
		}
		if !sound {
			return bad(i, offset)
		}
		extents = append(extents, extent{offset, offset + r.room(), i})
		rep.Bytes += r.length
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(extents, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	end := c.h.base()
	kept := extents[:0]
	for _, e := range extents {
		if e.from < end { // sound, and overlapping: the file was made so
			if err := bad(e.slot, e.from); err != nil {
				return nil, 0, err
			}
			continue
		}
		kept = append(kept, e)
		rep.Filled++
		rep.LiveBytes += e.to - e.from
		end = e.to
	}
	if drop != nil {
		slices.SortFunc(kept, func(a, b extent) int { return cmp.Compare(a.slot, b.slot) })
		for _, e := range kept {
			sum = sumSlot(sum, e.slot, e.from)
		}
	}
	slices.Sort(rep.Worst)
	rep.Empty = rep.Slots - rep.Filled - rep.Bad
	tail := end
	_, _ = c.guard(func() error { tail = int64(c.tail.Load() &^ frozen); return nil })
	rep.DeadBytes = max(tail, end) - c.h.base() - rep.LiveBytes
	return rep, sum, nil
}

// progress tells how far a long operation is.
func (c *Cache) progress(bytes int64) {
	if c.opts.Progress != nil {
		c.opts.Progress(bytes)
	}
}

// soundRecord verifies a record. The error is one of the disk, or of ctx.
func (c *Cache) soundRecord(ctx context.Context, i, offset int64) (r record, ok bool, err error) {
	faulted, err := c.guard(func() (err error) {
		if r, err = c.readHead(i, offset); err == nil {
			err = c.sound(ctx, r)
		}
		return err
	})
	if faulted {
		c.forget(i)
	}
	if (faulted || err != nil) && context.Cause(ctx) == nil {
		// Neither tells why: system calls know damage from a disk that fails.
		r, err = c.readSlowly(ctx, i, offset)
	}
	if errors.Is(err, ErrMiss) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("cache: reading entry %d of %s: %w", i, c.name(), err)
	}
	return r, true, nil
}

// readSlowly verifies a record without the mapping. The error is errBad, of the disk or of ctx.
func (c *Cache) readSlowly(ctx context.Context, i, offset int64) (r record, err error) {
	if !c.mayBegin(offset) {
		return record{}, errBad
	}
	var head [recordHead]byte
	n, err := preadFull(c.fd, head[:], offset)
	if err != nil {
		return record{}, err
	}
	r, ok := parseRecord(head[:], i, offset)
	if n < recordHead || !ok {
		return record{}, errBad
	}
	sum, err := c.sumByPieces(ctx, r)
	if err == nil && sum != r.sum {
		err = errBad
	}
	return r, err
}

// seal returns the seal of a preserved cache.
func (c *Cache) seal() (seal, bool) {
	page := make([]byte, pageSize)
	if n, err := preadFull(c.fd, page, 0); n < pageSize || err != nil {
		return seal{}, false
	}
	return parseSeal(page)
}
