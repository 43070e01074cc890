//go:build unix

package cache

import (
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

// reserve gives a record room at the tail: its offset is set. Tail and frozen bit are one word, so that a frozen cache
// gives no room, and so that the limit holds with all that is in flight.
func (c *Cache) reserve(r *record) answer {
	for {
		w := c.tail.Load()
		if w&frozen != 0 {
			return isFrozen
		}
		r.offset = int64(w)
		switch {
		case r.length > maxOffset-recordHead-align-r.offset || r.end() > c.limit:
			return isTooLong
		case c.h.maxBytes > 0 && r.end() > c.h.maxBytes:
			if !c.tail.CompareAndSwap(w, w|frozen) {
				continue
			}
			c.toldFull.Do(func() {
				if l := c.opts.Logger; l != nil {
					l.Warn("cache: the limit is reached, the cache is frozen for all processes", "file", c.name(), "max bytes", c.h.maxBytes)
				}
			})
			return isFull
		case c.tail.CompareAndSwap(w, w+uint64(r.room())):
			return isReserved
		}
	}
}

// giveBack frees the room of a record that was not published, on the disk; and in the file too, if it is still the last.
func (c *Cache) giveBack(r *record) {
	punch(c.fd, r.offset, r.room())
	for {
		w := c.tail.Load()
		if int64(w&^frozen) != r.offset+r.room() || c.tail.CompareAndSwap(w, w&frozen|uint64(r.offset)) {
			return
		}
	}
}

func (c *Cache) frozen() bool { return c.readOnly || c.tail.Load()&frozen != 0 }

// putting counts the puts of this process. All of its goroutines share one lock on the file: the first takes it, the last gives
// it back.
type putting struct {
	mu   sync.Mutex
	n    int
	idle sync.Cond // n became 0
}

// begin reports false where the cache was frozen.
func (p *putting) begin(c *Cache) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
		p.idle.Broadcast()
	}
}

// exclude waits for the puts in flight, of all processes, and keeps new ones out until release.
func (p *putting) exclude(c *Cache) (release func(), err error) {
	p.mu.Lock()
	for p.n > 0 {
		p.idle.Wait()
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		ok, err := lock(c.fd, lockWrite, exclusive)
		if err != nil {
			p.mu.Unlock()
			return nil, fmt.Errorf("cache: locking %s: %w", c.name(), err)
		}
		if ok {
			return func() {
				_, _ = lock(c.fd, lockWrite, unlocked)
				p.mu.Unlock()
			}, nil
		}
		time.Sleep(wait)
	}
}

// Freeze ends the putting of entries, for all processes and for good. When it returns no Put is in flight any more: the
// entries are what they will ever be. It waits for processes that are within Put, also for one that was stopped there.
func (c *Cache) Freeze() error {
	if !c.gate.enter(0) {
		return ErrClosed
	}
	defer c.gate.leave(0)
	if c.readOnly {
		return nil
	}
	release, err := c.freeze()
	if err == nil {
		release()
	}
	return err
}

// freeze freezes the cache and keeps writers out until release.
func (c *Cache) freeze() (release func(), err error) {
	faulted, _ := c.guard(func() error { c.tail.Or(frozen); return nil })
	if faulted {
		return nil, fmt.Errorf("cache: the first page of %s can't be read", c.name())
	}
	fault.Point("cache.frozen")
	return c.putting.exclude(c)
}

func now(c *Cache) time.Duration { return max(time.Since(c.begun), 1) }
