//go:build unix

package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"leat/internal/backoff"
	"leat/internal/fault"
)

// reserveResult is the result of reserve.
type reserveResult int

const (
	reserved reserveResult = iota
	reserveFrozen
	reserveFull    // beyond Options.MaxBytes
	reserveTooLong // beyond the largest file of this process
)

// reserve allocates file space for a record, usually at the tail, and sets its offset. Tail and
// frozen bit are one word, so that a frozen cache allocates nothing and the limit holds for all
// concurrent puts. A record beyond the limit freezes the cache if freezes is set.
func (c *Cache) reserve(r *record, freezes bool) reserveResult {
	c.freeExtents.trim(c.tail)
	limit := int64(maxOffset)
	if c.h.maxBytes > 0 {
		limit = c.h.maxBytes
	}
	for {
		w := c.tail.Load()
		if w&frozen != 0 {
			return reserveFrozen
		}
		if c.freeExtents.take(r, min(limit, c.limit)) {
			return reserved
		}
		r.offset = int64(w)
		switch {
		case r.length > maxOffset-recordHead-align-r.offset || r.end() > c.limit:
			return reserveTooLong
		case r.end() > limit:
			if freezes && !c.tail.CompareAndSwap(w, w|frozen) {
				continue
			}
			if freezes {
				c.warnFull.Do(func() {
					c.opts.Logger.Warn("cache frozen: limit reached", "file", c.name(), "max bytes", c.h.maxBytes)
				})
			}
			return reserveFull
		case c.tail.CompareAndSwap(w, w+uint64(r.space())):
			return reserved
		}
	}
}

// releaseRecord frees the space of an unpublished record: on the disk, and in the file for later
// records.
func (c *Cache) releaseRecord(r *record) {
	punch(c.fd, r.offset, r.space())
	c.freeExtents.add(extent{from: r.offset, to: r.offset + r.space()})
	c.freeExtents.trim(c.tail)
}

func (c *Cache) frozen() bool { return c.readOnly || c.tail.Load()&frozen != 0 }

// putting counts the running puts of this process. Its goroutines share one lock on the file: the
// first takes it, the last releases it.
type putting struct {
	mu    sync.Mutex
	n     int
	alone bool // a goroutine holds it exclusively: see exclude
}

const (
	// putPatience is how long a put waits for those that want the write lock exclusively. They may
	// themselves wait for a long put.
	putPatience = 50 * time.Millisecond
	// maxExclusiveWait is how far in the future an exclusive wait may end.
	maxExclusiveWait = 20 * time.Millisecond
)

// begin starts a put, or another change of the tail. It waits until ctx is done for a process that
// has the write lock exclusively. It reports false if the cache is frozen and Preserve has the
// lock.
func (p *putting) begin(ctx context.Context, c *Cache) (bool, error) {
	done, ok, err := p.tryBegin(c, true)
	if done {
		return ok, err
	}
	begun := time.Now()
	for pause := (&backoff.Backoff{Next: 20 * time.Microsecond, Max: time.Millisecond}); ; {
		if _, err := pause.Wait(ctx); err != nil {
			return false, err
		}
		if done, ok, err := p.tryBegin(c, time.Since(begun) < putPatience); done {
			return ok, err
		}
	}
}

// tryBegin reports whether begin is done, and what it returns. If yields is set, it does not begin
// before processes that wait for the lock exclusively.
func (p *putting) tryBegin(c *Cache, yields bool) (done, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.alone:
		return true, false, nil // frozen already
	case yields && c.isExclusiveWait():
		return c.frozen(), false, nil
	case p.n == 0:
		if ok, err := lock(c.fd, lockWrite, shared); err != nil {
			return true, false, fmt.Errorf("locking %s: %w", c.name(), err)
		} else if !ok {
			return c.frozen(), false, nil
		}
	}
	p.n++
	return true, true, nil
}

// isExclusiveWait reports whether a process that writes by plain stores waits for the write lock.
// Shared holders overlap, so that it might wait for ever.
func (c *Cache) isExclusiveWait() bool {
	w := c.shared.wait.Load()
	if w == 0 {
		return false
	}
	left := int64(w) - monotonic()
	return left > 0 && left <= int64(maxExclusiveWait)
}

func (p *putting) end(c *Cache) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n--; p.n == 0 {
		_, _ = lock(c.fd, lockWrite, unlocked)
	}
}

// exclude waits for the running puts of all processes until ctx is done. The cache must be frozen,
// so that there are no new ones. Until release no other call of exclude succeeds.
func (p *putting) exclude(ctx context.Context, c *Cache) (release func(), err error) {
	for pause := longPause(); ; {
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
		if _, err := pause.Wait(ctx); err != nil {
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
		return false, fmt.Errorf("locking %s: %w", c.name(), err)
	}
	p.alone = ok
	return ok, nil
}

// shortPause is the pause of a wait for a lock that others hold for microseconds.
func shortPause() *backoff.Backoff {
	return &backoff.Backoff{Next: 20 * time.Microsecond, Max: 5 * time.Millisecond}
}

// longPause is the pause of a wait for another process's work.
func longPause() *backoff.Backoff {
	return &backoff.Backoff{Next: 50 * time.Microsecond, Max: 10 * time.Millisecond}
}

// Freeze makes the cache refuse all further entries, for all processes and for good. When it
// returns nil, no Put is running any more, and the entries are final. It waits for running puts,
// even of a stopped process, until ctx is done; the error is then the cause of ctx, and the cache
// is frozen all the same, unless a put by plain stores was running all the time. If ctx was done
// before the call, nothing is frozen.
func (c *Cache) Freeze(ctx context.Context) error {
	if !c.drainGate.enter(0) {
		return ErrClosed
	}
	defer c.drainGate.leave(0)
	if err := context.Cause(ctx); err != nil || c.readOnly {
		return err
	}
	release, err := c.freeze(ctx)
	if err == nil {
		release()
	}
	return err
}

// freeze freezes the cache and excludes writers until release.
func (c *Cache) freeze(ctx context.Context) (release func(), err error) {
	faulted, err := c.guard(func() error {
		if ok, err := c.putting.begin(ctx, c); !ok || err != nil {
			return err
		}
		defer c.putting.end(c)
		c.tail.Or(frozen)
		return nil
	})
	if faulted {
		return nil, fmt.Errorf("the first page of %s can't be read", c.name())
	}
	if err != nil {
		return nil, err
	}
	fault.Point("cache.frozen")
	return c.putting.exclude(ctx, c)
}

func now(c *Cache) time.Duration { return max(time.Since(c.begun), 1) }
