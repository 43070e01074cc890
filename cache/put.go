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

// Put stores a copy of data in slot i, and reports whether it did. The first writer wins: a filled slot, a frozen cache, a reached
// limit and a file system without room answer false without an error, and Stats tells which. An entry that is damaged is replaced.
// Other processes see the entry, whole, when Put returns, and never a part of it. The error is ErrRange, ErrClosed, or one of the
// file system that is not for want of room.
func (c *Cache) Put(i int64, data []byte) (stored bool, err error) {
	if err := c.enter(i); err != nil {
		return false, err
	}
	defer c.gate.leave(i)
	_, err = c.guard(func() error {
		stored, err = c.put(i, data)
		return err
	})
	return stored, err
}

func (c *Cache) put(i int64, data []byte) (bool, error) {
	old, ok, _ := c.filled(i)
	switch {
	case ok:
		c.count(countFilled, 1)
		return false, nil
	case c.frozen():
		c.count(countFrozen, 1)
		return false, nil
	}
	r := record{slot: i, length: int64(len(data)), sum: crc32.Checksum(data, castagnoli)}
	if ok, err := c.putting.begin(c); err != nil {
		return false, err
	} else if !ok {
		c.count(countFrozen, 1)
		return false, nil
	}
	defer c.putting.end(c)
	if ok, err := c.givePage(i / slotsOnPage); err != nil {
		return false, fmt.Errorf("cache: room for the index: %w", err)
	} else if !ok {
		c.noSpace(unix.ENOSPC)
		return false, nil
	}
	switch c.reserve(&r) {
	case isFrozen:
		c.count(countFrozen, 1)
		return false, nil
	case isFull:
		c.count(countFull, 1)
		return false, nil
	case isTooLong:
		c.noSpace(unix.EFBIG)
		return false, nil
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
		c.noSpace(err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cache: writing entry %d: %w", i, err)
	}
	c.noSpaceSince.Store(0)
	fault.Point("cache.written")
	ok, err = c.publish(&r, old)
	if err != nil {
		return false, err
	}
	published = true // or another's is, and the room is dead
	if !ok {
		c.count(countLost, 1)
		return false, nil
	}
	fault.Point("cache.published")
	c.verified.add(i)
	c.count(countStored, 1)
	c.count(countStoredBytes, r.room())
	if old != 0 {
		c.count(countRepaired, 1)
	}
	return true, c.keep(r.room())
}

// publish makes a record visible, if its slot is still as it was found.
func (c *Cache) publish(r *record, old int64) (ok bool, err error) {
	faulted, err := c.guard(func() error {
		if err := fault.Error("cache.publish"); err != nil {
			return err
		}
		ok, err = c.swapSlot(r.slot, old, r.offset)
		return err
	})
	if faulted { // a file system that gave no room after all
		c.noSpace(unix.ENOSPC)
		return false, nil
	}
	return ok, err
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
func (c *Cache) noSpace(err error) {
	c.count(countNoSpace, 1)
	c.noSpaceSince.Store(int64(now(c)))
	c.toldNoSpace.Do(func() {
		if l := c.opts.Logger; l != nil {
			l.Warn("cache: no room for more entries; going on without", "file", c.name(), "cause", err)
		}
	})
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
