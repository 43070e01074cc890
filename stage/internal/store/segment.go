//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// segment is a segment that this process appends to, or that still has open Writers. Its hold
// protects it from sweeps and is the descriptor for writing.
type segment struct {
	id    uint64
	hold  *lockfile.Lock
	size  int64
	taken int64 // allocated bytes, guarded by Store.mu
	open  int   // open Writers, guarded by Store.mu

	// write serializes writes: goroutines that wait for the kernel's lock on the file spin, which
	// takes half as much time again.
	write sync.Mutex
}

// maxActive is how many segments a process appends to. The kernel serializes the writes to a file,
// so one per core is useful, up to a limit.
var maxActive = min(runtime.GOMAXPROCS(0), 4)

// pickSegment returns the index of the active segment with the fewest Writers, or of a new one if
// all have some.
func (s *Store) pickSegment() int {
	best := 0
	for i, seg := range s.active {
		if seg.open < s.active[best].open {
			best = i
		}
	}
	if len(s.active) == 0 || s.active[best].open > 0 && len(s.active) < maxActive {
		return len(s.active)
	}
	return best
}

// region allocates a region of an active segment, starting a new segment if needed.
func (s *Store) region(charge int64) (seg *segment, offset int64, err error) {
	s.mu.Lock()
	var old *segment
	i := s.pickSegment()
	if i == len(s.active) || s.active[i].size-s.active[i].taken < charge {
		if seg, err = s.newSegment(); err != nil {
			s.mu.Unlock()
			return nil, 0, err
		}
		if i == len(s.active) {
			s.active = append(s.active, nil)
		} else if old = s.active[i]; old.open > 0 {
			old = nil // its last Writer retires it
		}
		s.active[i] = seg
	}
	seg = s.active[i]
	offset = seg.taken
	seg.taken += charge
	seg.open++
	s.writers++
	s.mu.Unlock()
	if old != nil {
		if err = s.retire(old); err != nil {
			return nil, 0, errors.Join(err, s.closeRegion(seg))
		}
	}
	return seg, offset, nil
}

// closeRegion records that a Writer in a segment is closed.
func (s *Store) closeRegion(seg *segment) error {
	s.mu.Lock()
	s.writers--
	seg.open--
	last := seg.open == 0 && !slices.Contains(s.active, seg)
	s.mu.Unlock()
	if last {
		return s.retire(seg)
	}
	return nil
}

// newSegment creates a segment file.
func (s *Store) newSegment() (*segment, error) {
	size := min(SegmentSize, s.limit/Block*Block)
	for {
		id, err := s.next()
		if err != nil {
			return nil, err
		}
		h, err := s.segments.Publish(segmentName(id), 0o600, func(fd int) error {
			// Set the full length at once: some file systems preallocate beyond the end of a
			// growing file.
			return truncate(fd, size)
		})
		if errors.Is(err, fs.ErrExist) {
			continue // the numbers restarted
		} else if err != nil {
			return nil, fmt.Errorf("creating a segment: %w", err)
		}
		fault.Point("stage.segment")
		return &segment{id: id, hold: h, size: size}, nil
	}
}

// retire unlocks a segment that is complete.
func (s *Store) retire(seg *segment) error {
	err := seg.hold.Release()
	fault.Point("stage.retired")
	return errors.Join(err, s.removeEmpty(seg.id))
}

// maxDescriptors is the number of segments kept open for reading: 8 GiB of small objects, and a
// small part of the usual limit of 1024 files per process.
const maxDescriptors = 128

// descriptors is a cache of segments open for reading and punching.
type descriptors struct {
	max  int
	mu   sync.Mutex
	all  []*descriptor // cached, the most recently used last
	done bool
}

// descriptor is an open segment. It is closed once it is neither cached nor in use.
type descriptor struct {
	id    uint64
	fd    int
	users int
	kept  bool
}

// get returns the segment's descriptor, which the caller returns with put.
func (c *descriptors) get(dir *lockfile.Dir, id uint64) (*descriptor, error) {
	c.mu.Lock()
	if d := c.find(id); d != nil {
		d.users++
		c.mu.Unlock()
		return d, nil
	}
	c.mu.Unlock()
	fd, err := openat(dir.Fd(), segmentName(id), unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.find(id); d != nil { // another goroutine was faster
		d.users++
		closeFD(fd)
		return d, nil
	}
	d := &descriptor{id: id, fd: fd, users: 1}
	if c.done {
		return d, nil
	}
	if len(c.all) == c.max {
		// Evict the least recently used one. If all are in use, this one is not cached.
		old := slices.IndexFunc(c.all, func(d *descriptor) bool { return d.users == 0 })
		if old < 0 {
			return d, nil
		}
		closeFD(c.all[old].fd)
		c.all = slices.Delete(c.all, old, old+1)
	}
	d.kept = true
	c.all = append(c.all, d)
	return d, nil
}

// find returns a cached descriptor and makes it the most recently used. It searches from the end:
// reads cluster in few segments.
func (c *descriptors) find(id uint64) *descriptor {
	for i := len(c.all) - 1; i >= 0; i-- {
		if d := c.all[i]; d.id == id {
			copy(c.all[i:], c.all[i+1:])
			c.all[len(c.all)-1] = d
			return d
		}
	}
	return nil
}

// put ends the use of a descriptor.
func (c *descriptors) put(d *descriptor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.users--
	c.closeUnused(d)
}

// forget removes a segment from the cache and closes it once it is unused.
func (c *descriptors) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.find(id); d != nil {
		c.all = c.all[:len(c.all)-1]
		d.kept = false
		c.closeUnused(d)
	}
}

func (c *descriptors) closeUnused(d *descriptor) {
	if d.users == 0 && !d.kept {
		closeFD(d.fd)
		d.fd = -1 // the number may soon be another file's
	}
}

// close empties the cache and closes each segment once it is unused.
func (c *descriptors) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	for _, d := range c.all {
		d.kept = false
		c.closeUnused(d)
	}
	c.all = nil
}

// closeFD closes a descriptor through which nothing was written, so that there is no error to
// report.
func closeFD(fd int) { _ = unix.Close(fd) }
