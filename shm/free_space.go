//go:build unix

package shm

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/lockfile"
	"leat/internal/sysmem"
	"leat/internal/units"
)

// memoryFresh is how long the system's free memory, once read, is assumed for much smaller needs:
// reading it takes as long as copying half a megabyte.
const memoryFresh = 50 * time.Millisecond

// freeMemory remembers how much memory was free.
type freeMemory struct {
	mu    sync.Mutex
	at    time.Time
	bytes int64 // less what was reserved since
	known bool
}

// reserveMemory returns ErrNoSpace if need bytes of memory are not free, even without the memory
// that is kept for recycling.
func (s *Pool) reserveMemory(need int64) error {
	m := &s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known && time.Since(m.at) < memoryFresh && need < m.bytes/8 && fault.Error("shm.memory") == nil {
		m.bytes -= need
		return nil
	}
	free, err := s.available(need)
	if err == nil && free.Bytes < need {
		if kept := s.recycled.drain(); len(kept) > 0 {
			if err := closeAll(kept); err != nil {
				return err
			}
			free, err = s.available(need)
		}
	}
	m.known = false
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil // the system itself may refuse
	case err != nil:
		return err
	case free.Bytes < need:
		return fmt.Errorf("%w: need %s of memory, %s free (%s)", ErrNoSpace, units.FormatSize(need),
			units.FormatSize(free.Bytes), free.Limit)
	}
	m.known, m.at, m.bytes = true, time.Now(), free.Bytes-need
	return nil
}

func (s *Pool) available(need int64) (sysmem.Free, error) {
	if err := fault.Error("shm.memory"); err != nil {
		return sysmem.Free{Limit: err.Error()}, nil
	}
	free, err := sysmem.Available(need + s.opts.ReserveBytes)
	if err != nil {
		return free, err
	}
	if free.Bytes = max(free.Bytes-s.opts.ReserveBytes, 0); s.opts.ReserveBytes > 0 {
		free.Limit += ", less a reserve of " + units.FormatSize(s.opts.ReserveBytes)
	}
	return free, nil
}

// checkDiskSpace returns ErrNoSpace if the file system of d has less than need bytes free.
func checkDiskSpace(d *lockfile.Dir, need int64) error {
	free, err := fdio.FreeSpace(d.Fd())
	if err != nil {
		return fmt.Errorf("file system of %s: %w", d.Path(), err)
	}
	if free < need {
		return fmt.Errorf("%w: need %s in %s, %s free", ErrNoSpace, units.FormatSize(need), d.Path(),
			units.FormatSize(free))
	}
	return nil
}
