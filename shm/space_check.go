//go:build unix

package shm

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"leat/internal/fault"
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
	if err == nil && r.Free < need {
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
	case r.Free < need:
		return fmt.Errorf("%w: %s needed in memory, %s free (%s)", ErrNoRoom, sizeText(need), sizeText(r.Free), r.Limit)
	}
	c.known, c.at, c.free = true, time.Now(), r.Free-need
	return nil
}

func (s *Pool) available(need int64) (room, error) {
	if err := fault.Error("shm.room"); err != nil {
		return room{Free: 0, Limit: err.Error()}, nil
	}
	r, err := available(need + s.opts.Reserve)
	if err != nil {
		return r, err
	}
	if r.Free = max(r.Free-s.opts.Reserve, 0); s.opts.Reserve > 0 {
		r.Limit += ", less a reserve of " + sizeText(s.opts.Reserve)
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
		return fmt.Errorf("%w: %s needed in %s, %s free", ErrNoRoom, sizeText(need), dir, sizeText(free))
	}
	return nil
}

// sizeText writes a number of bytes for people.
func sizeText(n int64) string {
	unit, f := "", float64(n)
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < 1024 {
			break
		}
		unit, f = u, f/1024
	}
	if unit == "" {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
}
