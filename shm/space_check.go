//go:build unix

package shm

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"leat/internal/fault"
	"leat/internal/sysmem"
	"leat/internal/units"
)

// roomFor is how long an answer of the system about its memory is used again, where much less was
// asked for than is free: asking takes as long as copying half a megabyte.
const roomFor = 50 * time.Millisecond

// roomCache remembers how much memory there was.
type roomCache struct {
	mu    sync.Mutex
	at    time.Time
	free  int64 // less what was given out since
	known bool
}

// reserveMemory reports, as ErrNoRoom, that need bytes of memory are not to be had. Before that it
// gives up what is kept for recycling.
func (s *Pool) reserveMemory(need int64) error {
	c := &s.room
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && time.Since(c.at) < roomFor && need < c.free/8 && fault.Error("shm.room") == nil {
		c.free -= need
		return nil
	}
	r, err := s.available(need)
	if err == nil && r.Bytes < need {
		if pooled := s.pool.drain(); len(pooled) > 0 {
			if err := closeAll(pooled); err != nil {
				return err
			}
			r, err = s.available(need)
		}
	}
	c.known = false
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil // the system says no, or not
	case err != nil:
		return err
	case r.Bytes < need:
		return fmt.Errorf("%w: %s needed in memory, %s free (%s)", ErrNoRoom, units.FormatSize(need), units.FormatSize(r.Bytes), r.Limit)
	}
	c.known, c.at, c.free = true, time.Now(), r.Bytes-need
	return nil
}

func (s *Pool) available(need int64) (sysmem.Free, error) {
	if err := fault.Error("shm.room"); err != nil {
		return sysmem.Free{Limit: err.Error()}, nil
	}
	r, err := sysmem.Available(need + s.opts.Reserve)
	if err != nil {
		return r, err
	}
	if r.Bytes = max(r.Bytes-s.opts.Reserve, 0); s.opts.Reserve > 0 {
		r.Limit += ", less a reserve of " + units.FormatSize(s.opts.Reserve)
	}
	return r, nil
}

// checkDiskSpace reports that a folder's file system has no room for need bytes.
func checkDiskSpace(dir string, need int64) error {
	free, err := freeOn(dir)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case free < need:
		return fmt.Errorf("%w: %s needed in %s, %s free", ErrNoRoom, units.FormatSize(need), dir, units.FormatSize(free))
	}
	return nil
}
