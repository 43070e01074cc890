//go:build unix

package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"leat/internal/fault"
)

// fullFor is how long GetOrFill considers the disk full after a put found no space.
const fullFor = 100 * time.Millisecond

// GetOrFill returns a copy of entry i. If there is none, it calls fill and puts the result. Of all
// goroutines and processes that miss an entry at the same time, one fills it and the others wait
// until ctx is done; if that one fails or is killed, the next fills. Each caller gets only the
// error of its own fill. If another Put comes first, GetOrFill returns its entry. In a frozen or
// full cache nobody waits: each caller fills for itself.
//
// fill must pass on its ctx, and the caller of GetOrFill owns the returned slice. fill must not
// call GetOrFill of any cache, since two could wait for each other for ever: with fill's ctx that
// returns an error. It must not close the cache, which would wait for fill.
func (c *Cache) GetOrFill(ctx context.Context, i int64, fill func(ctx context.Context) ([]byte, error)) ([]byte,
	error) {
	data, err := c.Get(i)
	if !errors.Is(err, ErrMiss) {
		return data, err
	}
	if ctx.Value(filling{}) != nil {
		return nil, errReentrant
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if c.isRefusing() {
			data, err := callFill(ctx, fill)
			if err != nil {
				return nil, err
			}
			return c.putFilled(i, data)
		}
		f, first := c.flights.join(i)
		if first {
			data, err := c.fillSlot(ctx, i, fill, f)
			return data, err
		}
		select {
		case <-f.done:
			if f.ok {
				return bytes.Clone(f.data), nil
			}
			if data, err := c.Get(i); !errors.Is(err, ErrMiss) {
				return data, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// putFilled puts the result of a fill and returns the entry, which is another's if that came first,
// so that all callers get the same. An error of Put is returned together with the data, unless the
// cache was closed meanwhile.
func (c *Cache) putFilled(i int64, data []byte) ([]byte, error) {
	stored, err := c.Put(i, data)
	if err == nil && !stored { // Put counts refusals
		if entry, err := c.Get(i); err == nil {
			return entry, nil
		}
	}
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return data, err
}

// isRefusing reports whether a Put would be refused whatever its slot.
func (c *Cache) isRefusing() (yes bool) {
	if c.drainGate.enter(0) {
		defer c.drainGate.leave(0)
		_, _ = c.guard(func() error { yes = c.frozen(); return nil })
	}
	since := c.noSpaceSince.Load()
	return yes || since != 0 && now(c)-time.Duration(since) < fullFor
}

// fillSlot fills slot i on behalf of all waiters in this process, once no other process does.
func (c *Cache) fillSlot(ctx context.Context, i int64, fill func(context.Context) ([]byte, error), f *flight) (
	data []byte, err error) {
	defer c.flights.end(i, f) // even if fill panics
	if !c.drainGate.enter(i) {
		return nil, ErrClosed
	}
	defer c.drainGate.leave(i)
	for pause := longPause(); ; {
		ok, err := lock(c.fd, lockFill+i, exclusive)
		if err != nil {
			return nil, fmt.Errorf("locking slot %d of %s: %w", i, c.name(), err)
		}
		if ok {
			break
		}
		if _, err := pause.Wait(ctx); err != nil {
			return nil, err
		}
		if data, err := c.Get(i); !errors.Is(err, ErrMiss) {
			return data, err
		}
		if c.isRefusing() {
			break
		}
	}
	defer lock(c.fd, lockFill+i, unlocked)
	// It may have been filled before this process got the lock.
	if data, err := c.Get(i); !errors.Is(err, ErrMiss) {
		return data, err
	}
	fault.Point("cache.filling")
	if data, err = callFill(ctx, fill); err != nil {
		return nil, err
	}
	if data, err = c.putFilled(i, data); err == nil {
		c.flights.deliver(f, data)
	}
	return data, err
}

// flights tracks the slots that goroutines of this process are filling.
type flights struct {
	mu sync.Mutex
	m  map[int64]*flight
}

// flight is one running fill. ok and data are set before done is closed.
type flight struct {
	done    chan struct{}
	waiting int // under flights.mu
	ok      bool
	data    []byte
}

func (s *flights) join(i int64) (f *flight, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.m[i]; f != nil {
		f.waiting++
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	s.m[i] = f
	return f, true
}

// deliver gives waiters a copy of the data, since the caller may change its own. Later callers read
// the entry.
func (s *flights) deliver(f *flight, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting > 0 {
		f.ok, f.data = true, bytes.Clone(data)
	}
}

func (s *flights) end(i int64, f *flight) {
	s.mu.Lock()
	delete(s.m, i)
	s.mu.Unlock()
	close(f.done)
}

// filling is the context key that marks the ctx of a fill.
type filling struct{}

// callFill calls fill with a marked ctx.
func callFill(ctx context.Context, fill func(context.Context) ([]byte, error)) ([]byte, error) {
	data, err := fill(context.WithValue(ctx, filling{}, true))
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}
