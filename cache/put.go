//go:build unix

package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// PutResult is the outcome of a put.
type PutResult int

// The outcomes. Zero is only returned with an error.
const (
	Stored        PutResult = iota + 1
	AlreadyFilled           // refused: the slot has an entry, perhaps of a concurrent put
	Frozen                  // refused: the cache is frozen
	Full                    // refused: beyond Options.MaxBytes
	NoSpace                 // refused: no disk space, or beyond the largest file that this process may write
)

// Put stores a copy of data in slot i and reports whether it did. The first writer wins. A filled
// slot, a frozen cache, a reached limit and a full disk return false without an error; Stats counts
// each. The first entry beyond the limit freezes the cache. A damaged entry is replaced. When Put
// returns, other processes see the whole entry, and never a part of it. The error is that of a slot
// number out of range, ErrClosed, or one of the file system other than lack of space.
func (c *Cache) Put(i int64, data []byte) (stored bool, err error) {
	o, err := c.enterPut(i, payload{data: data, length: int64(len(data))}, true)
	return o == Stored, err
}

// TryPutFrom is Put of the first length bytes of r, and holds 1 MiB of them in memory at a time. It
// refuses an entry beyond the limit without freezing the cache, and does not count it. It returns
// the outcome. The error wraps that of r, or is io.ErrUnexpectedEOF if r has fewer bytes; nothing
// is stored then. Freeze and Preserve wait for it.
func (c *Cache) TryPutFrom(i int64, r io.ReaderAt, length int64) (PutResult, error) {
	if length < 0 {
		return 0, fmt.Errorf("an entry of %d bytes, expected 0 or more", length)
	}
	return c.enterPut(i, payload{from: r, length: length}, false)
}

// payload is the data of an entry: in memory, or from a reader.
type payload struct {
	data   []byte
	from   io.ReaderAt // nil: use data
	length int64
}

// readError is an error of the caller's reader, as opposed to one of the cache's disk.
type readError struct{ err error }

func (e readError) Error() string { return e.err.Error() }

func (c *Cache) enterPut(i int64, p payload, freezes bool) (o PutResult, err error) {
	if err := c.enter(i); err != nil {
		return 0, err
	}
	defer c.drainGate.leave(i)
	// A fault in page 0 or the index drops cached facts about the file, so try again once.
	for range 2 {
		faulted, err := c.guard(func() error { return c.put(i, p, freezes, &o) })
		if !faulted || o != 0 {
			return o, err
		}
		c.forget(i)
	}
	return 0, c.errCut()
}

// put stores an entry. It sets o as soon as the outcome is certain, since a fault may follow.
func (c *Cache) put(i int64, p payload, freezes bool, o *PutResult) error {
	refuse := func(why PutResult, counter int) error {
		*o = why
		c.count(counter, 1)
		return nil
	}
	old, ok := c.found(i)
	switch {
	case ok:
		return refuse(AlreadyFilled, countFilled)
	case c.frozen():
		return refuse(Frozen, countFrozen)
	}
	r := record{slot: i, length: p.length, sum: crc32.Checksum(p.data, c.sums)}
	if ok, err := c.putting.begin(context.Background(), c); err != nil {
		return err
	} else if !ok {
		return refuse(Frozen, countFrozen)
	}
	defer c.putting.end(c)
	if ok, err := c.allocatePage(i / slotsOnPage); err != nil {
		return fmt.Errorf("allocating the index: %w", err)
	} else if !ok {
		return c.noSpace(o, unix.ENOSPC)
	}
	switch c.reserve(&r, freezes) {
	case reserveFrozen:
		return refuse(Frozen, countFrozen)
	case reserveFull:
		if freezes {
			return refuse(Full, countFull)
		}
		*o = Full
		return nil
	case reserveTooLong:
		return c.noSpace(o, unix.EFBIG)
	}
	fault.Point("cache.reserved")
	published := false
	defer func() {
		if !published {
			c.releaseRecord(&r)
		}
	}()
	var err error
	if p.from != nil {
		err = c.writeFrom(&r, p.from)
	} else {
		err = c.write(&r, p.data)
	}
	if err == nil && c.durable == DurabilityEach {
		err = flush(c.fd)
	}
	var failed readError
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("reading the data of entry %d: %w", i, failed.err)
	case noSpace(err):
		return c.noSpace(o, err)
	case err != nil:
		return fmt.Errorf("writing entry %d: %w", i, err)
	}
	c.noSpaceSince.Store(0)
	fault.Point("cache.written")
	faulted, ok, err := c.publish(&r, old)
	switch {
	case err != nil:
		return err
	case faulted: // the file system had no space after all
		return c.noSpace(o, unix.ENOSPC)
	}
	published = true // or it lost the race, and its space is dead
	if !ok {
		return refuse(AlreadyFilled, countLost)
	}
	*o = Stored
	fault.Point("cache.published")
	c.verified.add(i)
	err = c.flushIfDue(r.space())
	c.count(countStored, 1)
	c.count(countStoredBytes, r.space())
	if old != 0 {
		c.count(countRepaired, 1)
	}
	return err
}

// found returns the offset in slot i, and whether it has an intact entry. An unreadable entry
// counts as none, so that this put replaces it.
func (c *Cache) found(i int64) (old int64, ok bool) {
	old = c.loadSlot(i)
	for range 2 {
		faulted, _ := c.guard(func() error { old, ok, _ = c.filled(i); return nil })
		if !faulted {
			return old, ok
		}
		c.forget(i)
	}
	return old, false
}

// publish sets the slot of a record if it is unchanged since found. After a fault or error it did
// not.
func (c *Cache) publish(r *record, old int64) (faulted, ok bool, err error) {
	faulted, err = c.guard(func() error {
		if err := fault.Error("cache.publish"); err != nil {
			return err
		}
		ok, err = c.swapSlot(r.slot, old, r.offset)
		return err
	})
	return faulted, ok, err
}

// write writes a record at its reserved offset.
func (c *Cache) write(r *record, data []byte) error {
	var head [recordHead]byte
	r.encode(&head, c.sums)
	a, b, at := head[:], data, r.offset
	for len(a)+len(b) > 0 {
		if err := fault.Error("cache.write"); err != nil {
			return err
		}
		piece := b[:min(len(b), math.MaxInt32&^(pageSize-1)-recordHead)] // the kernel writes no more at once
		if fault.Error("cache.short write") != nil {
			piece = b[:(len(b)+1)/2]
		}
		n, err := pwritev(c.fd, a, piece, at)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
		at += int64(n)
		k := min(n, len(a))
		a, b = a[k:], b[n-k:]
		fault.Point("cache.wrote")
	}
	return nil
}

// writeFrom writes a record at its reserved offset, data first: only then their checksum, which the
// header contains, is known.
func (c *Cache) writeFrom(r *record, from io.ReaderAt) error {
	b := chunks.Get().(*[1 << 20]byte)
	defer chunks.Put(b)
	r.sum = 0
	for at := int64(0); at < r.length; {
		part := b[:min(int64(len(b)), r.length-at)]
		if n, err := from.ReadAt(part, at); n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return readError{err}
		}
		if err := writeFull(c.fd, part, r.offset+recordHead+at); err != nil {
			return err
		}
		fault.Point("cache.wrote")
		r.sum = crc32.Update(r.sum, c.sums, part)
		at += int64(len(part))
	}
	var head [recordHead]byte
	r.encode(&head, c.sums)
	return writeFull(c.fd, head[:], r.offset)
}

// noSpace counts an entry for which there was no disk space, and warns once.
func (c *Cache) noSpace(o *PutResult, err error) error {
	*o = NoSpace
	c.noSpaceSince.Store(int64(now(c)))
	c.warnNoSpace.Do(func() { c.opts.Logger.Warn("cache full: no disk space", "file", c.name(), "cause", err) })
	c.count(countNoSpace, 1)
	return nil
}

// name returns the cache's path or UUID for messages.
func (c *Cache) name() string {
	if c.path != "" {
		return c.path
	}
	return "nameless cache " + c.UUID()
}

// batch counts what was put since the last flush.
type batch struct {
	mu      sync.Mutex
	entries int
	bytes   int64
}

const (
	batchEntries = 1024
	batchBytes   = 64 << 20
)

// flushIfDue flushes as often as the durability requires.
func (c *Cache) flushIfDue(bytes int64) error {
	switch c.durable {
	case DurabilityEach:
		return c.flush()
	case DurabilityBatch:
		c.batch.mu.Lock()
		c.batch.entries++
		c.batch.bytes += bytes
		due := c.batch.entries >= batchEntries || c.batch.bytes >= batchBytes
		if due {
			c.batch.entries, c.batch.bytes = 0, 0
		}
		c.batch.mu.Unlock()
		if due {
			return c.flush()
		}
	}
	return nil
}

func (c *Cache) flush() error {
	err := fault.Error("cache.flush")
	if err == nil {
		err = flush(c.fd)
	}
	if err != nil {
		return fmt.Errorf("flushing %s: %w", c.name(), err)
	}
	return nil
}
