//go:build unix

package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"

	"leat/internal/fault"
)

// fullFor is how long after a put found no room GetOrFill takes the disk for full.
const fullFor = 100 * time.Millisecond

// GetOrFill returns a copy of entry i; where there is none it calls fill and puts what fill returns. Of all goroutines and
// processes that miss an entry at the same time one fills it and the others wait, until ctx ends; when the filler fails or is
// killed the next one fills. Each gets the error of its own fill alone. Where a Put comes before the fill has ended, its entry is returned. In a
// cache that is frozen or full nobody waits: each fills for itself.
//
// fill gets a ctx that it must pass on, and gives up what it returns: the caller of GetOrFill owns it then. fill must
// not call GetOrFill, of any cache: two that wait for each other would wait for ever. That is detected, and ErrReentrant. Nor must it close
// the cache, which would wait for it.
func (c *Cache) GetOrFill(ctx context.Context, i int64, fill func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	data, err := c.Get(i)
	if !errors.Is(err, ErrMiss) {
		return data, err
	}
	if ctx.Value(filling{}) != nil || insideFill() {
		return nil, ErrReentrant
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if c.refuses() {
			data, err := callFill(ctx, fill)
			if err != nil {
				return nil, err
			}
			return c.keepFilled(i, data)
		}
		f, first := c.flights.join(i)
		if first {
			data, err := c.lead(ctx, i, fill, f)
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

// keepFilled puts what a fill made and returns the entry: another's, if that came first, so that all callers have the same. An error
// of putting is told beside the data, unless the cache was closed meanwhile.
func (c *Cache) keepFilled(i int64, data []byte) ([]byte, error) {
	stored, err := c.Put(i, data)
	if err == nil && !stored { // refusals are counted there
		if entry, err := c.Get(i); err == nil {
			return entry, nil
		}
	}
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return data, err
}

// refuses tells whether a Put would be refused whatever its slot.
func (c *Cache) refuses() (yes bool) {
	if c.gate.enter(0) {
		defer c.gate.leave(0)
		_, _ = c.guard(func() error { yes = c.frozen(); return nil })
	}
	since := c.noSpaceSince.Load()
	return yes || since != 0 && now(c)-time.Duration(since) < fullFor
}

// lead fills slot i for all who wait in this process, when no other process does.
func (c *Cache) lead(ctx context.Context, i int64, fill func(context.Context) ([]byte, error), f *flight) (data []byte, err error) {
	defer c.flights.end(i, f) // whatever happens in fill
	if !c.gate.enter(i) {
		return nil, ErrClosed
	}
	defer c.gate.leave(i)
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		ok, err := lock(c.fd, lockFill+i, exclusive)
		if err != nil {
			return nil, fmt.Errorf("cache: locking slot %d of %s: %w", i, c.name(), err)
		}
		if ok {
			break
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
		if data, err := c.Get(i); !errors.Is(err, ErrMiss) {
			return data, err
		}
		if c.refuses() {
			break
		}
	}
	defer lock(c.fd, lockFill+i, unlocked)
	// It may have been filled before the lock was got.
	if data, err := c.Get(i); !errors.Is(err, ErrMiss) {
		return data, err
	}
	fault.Point("cache.filling")
	if data, err = callFill(ctx, fill); err != nil {
		return nil, err
	}
	if data, err = c.keepFilled(i, data); err == nil {
		c.flights.land(f, data)
	}
	return data, err
}

// flights are the slots that goroutines of this process are filling.
type flights struct {
	mu sync.Mutex
	m  map[int64]*flight
}

// flight is one filling; ok and data are set before done is closed.
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

// land hands the data to those who wait. They get a copy: the caller may change its own. Who comes later looks for the entry.
func (s *flights) land(f *flight, data []byte) {
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

// filling marks the ctx of a fill.
type filling struct{}

// callFill calls fill. Its frame on the stack tells insideFill what goes on.
//
//go:noinline
func callFill(ctx context.Context, fill func(context.Context) ([]byte, error)) ([]byte, error) {
	data, err := fill(context.WithValue(ctx, filling{}, true))
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

var fillEntry = reflect.ValueOf(callFill).Pointer()

// insideFill tells whether this goroutine is within a fill that did not pass its ctx on. It is asked after a miss only.
func insideFill() bool {
	pc := make([]uintptr, 64)
	for skip := 0; ; skip += len(pc) {
		n := runtime.Callers(skip, pc)
		frames := runtime.CallersFrames(pc[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if f.Func != nil && f.Func.Entry() == fillEntry {
				return true
			}
		}
		if n < len(pc) {
			return false
		}
	}
}
