//go:build unix

package cache

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// Outcome is what became of an entry that was put.
type Outcome int

// The outcomes. Zero stands beside an error alone.
const (
	Stored  Outcome = iota + 1
	Filled          // refused: the slot has an entry, of another who came first maybe
	Frozen          // refused: the cache takes no more entries
	Full            // refused: it does not fit below Options.MaxBytes
	NoSpace         // refused: no room on the disk, or below the largest file that this process may write
)

// Put stores a copy of data in slot i, and reports whether it did. The first writer wins: a filled slot, a frozen cache, a reached
// limit and a file system without room answer false without an error, and Stats tells which. The first entry beyond the limit freezes the cache. An entry
// that is damaged is replaced. Other processes see the entry, whole, when Put returns, and never a part of it. The error is ErrRange, ErrClosed, or one of
// the file system that is not for want of room.
func (c *Cache) Put(i int64, data []byte) (stored bool, err error) {
	o, err := c.enterPut(i, data, true)
	return o == Stored, err
}

// Offer is Put for those whose entry must not end the putting of others: one that does not fit below the limit is refused, and the cache is not frozen by
// it, nor is it counted. It tells what became of the entry.
func (c *Cache) Offer(i int64, data []byte) (Outcome, error) { return c.enterPut(i, data, false) }

func (c *Cache) enterPut(i int64, data []byte, freezes bool) (o Outcome, err error) {
	if err := c.enter(i); err != nil {
		return 0, err
	}
	defer c.gate.leave(i)
	// A fault of page 0 or of the index changes what is believed of the file: the second time that is right.
	for range 2 {
		faulted, err := c.guard(func() error { return c.put(i, data, freezes, &o) })
		if !faulted || o != 0 {
			return o, err
		}
		c.forget(i)
	}
	return 0, c.errCut()
}

// put sets o as soon as it is certain: a fault may come later, where it is counted.
func (c *Cache) put(i int64, data []byte, freezes bool, o *Outcome) error {
	refuse := func(why Outcome, counter int) error {
		*o = why
		c.count(counter, 1)
		return nil
	}
	old, ok := c.found(i)
	switch {
	case ok:
		return refuse(Filled, countFilled)
	case c.frozen():
		return refuse(Frozen, countFrozen)
	}
	r := record{slot: i, length: int64(len(data)), sum: crc32.Checksum(data, castagnoli)}
	if ok, err := c.putting.begin(c); err != nil {
		return err
	} else if !ok {
		return refuse(Frozen, countFrozen)
	}
	defer c.putting.end(c)
	if ok, err := c.givePage(i / slotsOnPage); err != nil {
		return fmt.Errorf("cache: room for the index: %w", err)
	} else if !ok {
		return c.noSpace(o, unix.ENOSPC)
	}
	switch c.reserve(&r, freezes) {
	case isFrozen:
		return refuse(Frozen, countFrozen)
	case isFull:
		if freezes {
			return refuse(Full, countFull)
		}
		*o = Full
		return nil
	case isTooLong:
		return c.noSpace(o, unix.EFBIG)
	}
	fault.Point("cache.reserved")
	published := false
	defer func() {
		if !published {
			c.giveBack(&r)
		}
	}()
	err := c.write(&r, data)
	if err == nil && c.durable == DurabilityEach {
		err = flush(c.fd)
	}
	switch {
	case noSpace(err):
		return c.noSpace(o, err)
	case err != nil:
		return fmt.Errorf("cache: writing entry %d: %w", i, err)
	}
	c.noSpaceSince.Store(0)
	fault.Point("cache.written")
	faulted, ok, err := c.publish(&r, old)
	switch {
	case err != nil:
		return err
	case faulted: // a file system that gave no room after all
		return c.noSpace(o, unix.ENOSPC)
	}
	published = true // or another's is, and the room is dead
	if !ok {
		return refuse(Filled, countLost)
	}
	*o = Stored
	fault.Point("cache.published")
	c.verified.add(i)
	err = c.keep(r.room())
	c.count(countStored, 1)
	c.count(countStoredBytes, r.room())
	if old != 0 {
		c.count(countRepaired, 1)
	}
	return err
}

// found tells what is in slot i, and whether it is a sound entry: one that can't be read, now and with nothing believed of the file, is none,
// so that this put takes its place.
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

// publish makes a record visible, if its slot is still as it was found. It did not where it faulted, or fails.
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

// write writes a record where it was given room.
func (c *Cache) write(r *record, data []byte) error {
	var head [recordHead]byte
	r.encode(&head)
	a, b, at := head[:], data, r.offset
	for len(a)+len(b) > 0 {
		if err := fault.Error("cache.write"); err != nil {
			return err
		}
		piece := b[:min(len(b), math.MaxInt32&^(pageSize-1)-recordHead)] // the kernel takes no more at once
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

// noSpace counts an entry that found no room on the disk, and tells it once.
func (c *Cache) noSpace(o *Outcome, err error) error {
	*o = NoSpace
	c.noSpaceSince.Store(int64(now(c)))
	c.toldNoSpace.Do(func() {
		if l := c.opts.Logger; l != nil {
			l.Warn("cache: no room for more entries; going on without", "file", c.name(), "cause", err)
		}
	})
	c.count(countNoSpace, 1)
	return nil
}

// name is what people are told the cache is.
func (c *Cache) name() string {
	if c.path != "" {
		return c.path
	}
	return "nameless cache " + c.UUID()
}

// batch is what was put since the last flush.
type batch struct {
	mu      sync.Mutex
	entries int
	bytes   int64
}

const (
	batchEntries = 1024
	batchBytes   = 64 << 20
)

// keep flushes what was put, as often as the cache is set.
func (c *Cache) keep(room int64) error {
	switch c.durable {
	case DurabilityEach:
		return c.flush()
	case DurabilityBatch:
		c.batch.mu.Lock()
		c.batch.entries++
		c.batch.bytes += room
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
		return fmt.Errorf("cache: flushing %s: %w", c.name(), err)
	}
	return nil
}
