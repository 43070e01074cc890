//go:build unix

package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"leat/internal/fdio"
)

// Entry describes a filled slot.
type Entry struct {
	Slot   int64
	Offset int64 // of the record in the file
	Length int64 // of the data in bytes; 0 if Bad
	Bad    bool  // the record is damaged: Get returns ErrMiss
}

// Each calls f for every filled slot in ascending order, until f returns an error or ctx is done. f
// must not close the cache. Each reads and verifies only the headers of records, not their data.
// Its time depends on the used part of the index, not on n.
func (c *Cache) Each(ctx context.Context, f func(Entry) error) error {
	if !c.drainGate.enter(0) {
		return ErrClosed
	}
	defer c.drainGate.leave(0)
	return c.eachFilled(ctx, func(i, offset int64) error {
		e := Entry{Slot: i, Offset: offset}
		if faulted, _ := c.guard(func() error {
			r, err := c.readHead(i, offset, false)
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
		case err != nil: // the file system does not report holes
			from, to = at, end
		case from < 0:
			return nil
		}
		from, to = max(from&^7, at), min(to, end)
		for at = from; at < to; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n, err := fdio.ReadFull(c.fd, b[:min(int64(len(b)), end-at)], at)
			if err != nil {
				return fmt.Errorf("reading the index of %s: %w", c.name(), err)
			}
			if n &^= 7; n == 0 {
				return nil // truncated
			}
			for k := 0; k < n; k += 8 {
				// Load the word itself: bytes are not read atomically.
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

// Report is the result of Check.
type Report struct {
	Slots       int64 // n
	FilledSlots int64 // slots with an intact entry
	Empty       int64
	Bad         int64   // slots whose record is damaged or overlaps another one
	FirstBad    []int64 // the first 100 bad slots, ascending
	// LiveBytes is the space of intact records. DeadBytes is the space of records that no slot
	// refers to: those of killed writers, of puts that lost the race for a slot, and of replaced
	// damaged records. Running puts count as dead.
	LiveBytes, DeadBytes int64
	Bytes                int64 // of data in intact records
	Preserved            bool  // Preserve has sealed the file
	SealBroken           bool  // the index differs from the sealed one
}

// OK reports whether nothing is damaged.
func (r *Report) OK() bool { return r.Bad == 0 && !r.SealBroken }

// Check reads and verifies everything, whatever Options.Verify is, and reports what it finds. It
// returns an error only if the check could not be completed. Other processes may put entries
// meanwhile.
func (c *Cache) Check(ctx context.Context) (*Report, error) {
	if !c.drainGate.enter(0) {
		return nil, ErrClosed
	}
	defer c.drainGate.leave(0)
	rep, sum, err := c.examine(ctx, nil)
	if err != nil {
		return nil, err
	}
	if s, ok := c.seal(); ok {
		rep.Preserved = true
		rep.SealBroken = sum != s.index || rep.FilledSlots+rep.Bad != s.entries
	}
	return rep, nil
}

// extent is the space of a record.
type extent struct{ from, to, slot int64 }

// examine verifies all entries. It calls drop, if not nil, with the bad ones, which the index
// checksum then excludes; in that case a disk error ends it, since entries that can't be read now
// may be intact.
func (c *Cache) examine(ctx context.Context, drop func(i, offset int64) error) (rep *Report, sum uint32, err error) {
	rep = &Report{Slots: c.h.n}
	var extents []extent
	bad := func(i, offset int64) error {
		if rep.Bad++; len(rep.FirstBad) < 100 {
			rep.FirstBad = append(rep.FirstBad, i)
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
		r, sound, err := c.verifyRecord(ctx, i, offset)
		if err != nil && (drop != nil || context.Cause(ctx) != nil) {
			return err
		}
		done += r.space()
		c.progress(done)
		if drop == nil {
			sum = sumSlot(sum, c.sums, i, offset)
		}
		if !sound {
			return bad(i, offset)
		}
		extents = append(extents, extent{offset, offset + r.space(), i})
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
		if e.from < end { // intact, but overlapping: the file was forged
			if err := bad(e.slot, e.from); err != nil {
				return nil, 0, err
			}
			continue
		}
		kept = append(kept, e)
		rep.FilledSlots++
		rep.LiveBytes += e.to - e.from
		end = e.to
	}
	if drop != nil {
		slices.SortFunc(kept, func(a, b extent) int { return cmp.Compare(a.slot, b.slot) })
		for _, e := range kept {
			sum = sumSlot(sum, c.sums, e.slot, e.from)
		}
	}
	slices.Sort(rep.FirstBad)
	rep.Empty = rep.Slots - rep.FilledSlots - rep.Bad
	tail := end
	_, _ = c.guard(func() error { tail = int64(c.tail.Load() &^ frozen); return nil })
	rep.DeadBytes = max(tail, end) - c.h.base() - rep.LiveBytes
	return rep, sum, nil
}

// progress reports the progress of a long operation.
func (c *Cache) progress(bytes int64) {
	if c.opts.Progress != nil {
		c.opts.Progress(bytes)
	}
}

// verifyRecord verifies a record. An error is one of the disk or of ctx.
func (c *Cache) verifyRecord(ctx context.Context, i, offset int64) (r record, ok bool, err error) {
	faulted, err := c.guard(func() (err error) {
		if r, err = c.readHead(i, offset, false); err == nil {
			err = c.verifyData(ctx, r)
		}
		return err
	})
	if faulted {
		c.forget(i)
	}
	if (faulted || err != nil) && context.Cause(ctx) == nil {
		// Neither gives the cause: system calls distinguish damage from a failing disk.
		r, err = c.verifyByReads(ctx, i, offset)
	}
	if errors.Is(err, ErrMiss) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("reading entry %d of %s: %w", i, c.name(), err)
	}
	return r, true, nil
}

// verifyByReads verifies a record without the mapping. The error is errBad, or one of the disk or
// of ctx.
func (c *Cache) verifyByReads(ctx context.Context, i, offset int64) (r record, err error) {
	if !c.isRecordOffset(offset) {
		return record{}, errBad
	}
	var head [recordHead]byte
	n, err := fdio.ReadFull(c.fd, head[:], offset)
	if err != nil {
		return record{}, err
	}
	r, ok := parseRecord(head[:], i, offset, c.sums)
	if n < recordHead || !ok {
		return record{}, errBad
	}
	sum, err := c.sumChunks(ctx, r)
	if err == nil && sum != r.sum {
		err = errBad
	}
	return r, err
}

// seal returns the seal of a preserved cache.
func (c *Cache) seal() (seal, bool) {
	page := make([]byte, pageSize)
	if n, err := fdio.ReadFull(c.fd, page, 0); n < pageSize || err != nil {
		return seal{}, false
	}
	return parseSeal(page)
}
