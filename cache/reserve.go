//go:build unix

package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leat/internal/fault"
)

// What reserve answers.
type answer int

const (
	isReserved answer = iota
	isFrozen
	isFull    // beyond Options.MaxBytes: the cache is frozen by it
	isTooLong // beyond what this process may write
)

// reserve gives a record room, at the tail mostly: its offset is set. Tail and frozen bit are one word, so that a frozen cache
// gives no room, and so that the limit holds with all that is in flight. A record beyond the limit freezes the cache, if it may.
func (c *Cache) reserve(r *record, freezes bool) answer {
	c.spare.giveUp(c.tail)
	limit := int64(maxOffset)
	if c.h.maxBytes > 0 {
		limit = c.h.maxBytes
	}
	for {
		w := c.tail.Load()
		if w&frozen != 0 {
			return isFrozen
		}
		if c.spare.take(r, min(limit, c.limit)) {
			return isReserved
		}
		r.offset = int64(w)
		switch {
		case r.length > maxOffset-recordHead-align-r.offset || r.end() > c.limit:
			return isTooLong
		case r.end() > limit:
			if freezes && !c.tail.CompareAndSwap(w, w|frozen) {
				continue
			}
			if freezes {
				c.toldFull.Do(func() {
					if l := c.opts.Logger; l != nil {
						l.Warn("cache: the limit is reached, the cache is frozen for all processes", "file", c.name(), "max bytes", c.h.maxBytes)
					}
				})
			}
			return isFull
		case c.tail.CompareAndSwap(w, w+uint64(r.room())):
			return isReserved
		}
	}
}

// giveBack frees the room of a record that was not published, on the disk; and in the file too, if it is still the last, else for the next
// record of this process.
func (c *Cache) giveBack(r *record) {
	punch(c.fd, r.offset, r.room())
	c.spare.add(extent{from: r.offset, to: r.offset + r.room()})
	c.spare.giveUp(c.tail)
}

func (c *Cache) frozen() bool { return c.readOnly || c.tail.Load()&frozen != 0 }

// putting counts the puts of this process. All of its goroutines share one lock on the file: the first takes it, the last gives
// it back.
type putting struct {
	mu    sync.Mutex
	n     int
	alone bool // one goroutine has the lock for itself: see exclude
}

// begin reports false where the cache was frozen.
func (p *putting) begin(c *Cache) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alone {
		return false, nil // it was frozen before
	}
	for wait := 20 * time.Microsecond; p.n == 0; wait = min(2*wait, 5*time.Millisecond) {
		ok, err := lock(c.fd, lockWrite, shared)
		if err != nil {
			return false, fmt.Errorf("cache: locking %s: %w", c.name(), err)
		}
		if ok {
			break
		}
		// Whoever has it alone has frozen the cache before.
		if c.frozen() {
			return false, nil
		}
		time.Sleep(wait)
	}
	p.n++
	return true, nil
}

func (p *putting) end(c *Cache) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n--; p.n == 0 {
		_, _ = lock(c.fd, lockWrite, unlocked)
	}
}

// exclude waits for the puts in flight, of all processes, until ctx ends. The cache was frozen before: there will be no new ones. Until release nobody
// else may exclude.
func (p *putting) exclude(ctx context.Context, c *Cache) (release func(), err error) {
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		ok, err := p.tryExclude(c)
		if err != nil {
			return nil, err
		}
		if ok {
			return func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.alone = false
				_, _ = lock(c.fd, lockWrite, unlocked)
			}, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (p *putting) tryExclude(c *Cache) (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alone || p.n > 0 {
		return false, nil
	}
	if ok, err = lock(c.fd, lockWrite, exclusive); err != nil {
		return false, fmt.Errorf("cache: locking %s: %w", c.name(), err)
	}
	p.alone = ok
	return ok, nil
}

// sleep waits, and returns the cause if ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Freeze ends the putting of entries, for all processes and for good. When it returns nil no Put is in flight any more: the
// entries are what they will ever be. It waits for processes that are within Put, also for one that was stopped there, until ctx ends: the error is
// the cause then, and the cache is frozen all the same. A ctx that has ended before freezes nothing.
func (c *Cache) Freeze(ctx context.Context) error {
	if !c.gate.enter(0) {
		return ErrClosed
	}
	defer c.gate.leave(0)
	if err := context.Cause(ctx); err != nil || c.readOnly {
		return err
	}
	release, err := c.freeze(ctx)
	if err == nil {
		release()
	}
	return err
}

// freeze freezes the cache and keeps writers out until release.
func (c *Cache) freeze(ctx context.Context) (release func(), err error) {
	faulted, _ := c.guard(func() error { c.tail.Or(frozen); return nil })
	if faulted {
		return nil, fmt.Errorf("cache: the first page of %s can't be read", c.name())
	}
	fault.Point("cache.frozen")
	return c.putting.exclude(ctx, c)
}

func now(c *Cache) time.Duration { return max(time.Since(c.begun), 1) }
