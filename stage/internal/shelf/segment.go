//go:build unix

package shelf

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lease"
)

// segment is one to which this process appends or appended, until the last draft in it is closed. Its hold keeps sweepers away, and is the descriptor
// for writing.
type segment struct {
	id    uint64
	hold  *lease.Hold
	size  int64
	taken int64 // bytes given out, under Shelf.mu
	open  int   // drafts in it that are not closed, under Shelf.mu

	// write is held while something is written: those who wait for a file's own lock in the kernel spin, which took half as much time again.
	write sync.Mutex
}

// lanes is how many segments a process appends to: writes to one file go one after the other, so as many as are of use to the cores.
var lanes = min(runtime.GOMAXPROCS(0), 4)

// lane is the one with the fewest drafts; a new one where all have some.
func (s *Shelf) lane() int {
	best := 0
	for i, seg := range s.active {
		if seg.open < s.active[best].open {
			best = i
		}
	}
	if len(s.active) == 0 || s.active[best].open > 0 && len(s.active) < lanes {
		return len(s.active)
	}
	return best
}

// region takes a region of an active segment, or begins the next one.
func (s *Shelf) region(charge int64) (seg *segment, offset int64, err error) {
	s.mu.Lock()
	var old *segment
	i := s.lane()
	if i == len(s.active) || s.active[i].size-s.active[i].taken < charge {
		if seg, err = s.newSegment(); err != nil {
			s.mu.Unlock()
			return nil, 0, err
		}
		if i == len(s.active) {
			s.active = append(s.active, nil)
		} else if old = s.active[i]; old.open > 0 {
			old = nil // its last draft retires it
		}
		s.active[i] = seg
	}
	seg = s.active[i]
	offset = seg.taken
	seg.taken += charge
	seg.open++
	s.drafts++
	s.mu.Unlock()
	if old != nil {
		if err = s.retire(old); err != nil {
			return nil, 0, errors.Join(err, s.leave(seg))
		}
	}
	return seg, offset, nil
}

// leave tells that a draft in a segment is closed.
func (s *Shelf) leave(seg *segment) error {
	s.mu.Lock()
	s.drafts--
	seg.open--
	last := seg.open == 0 && !slices.Contains(s.active, seg)
	s.mu.Unlock()
	if last {
		return s.retire(seg)
	}
	return nil
}

// newSegment makes the file of a new segment.
func (s *Shelf) newSegment() (*segment, error) {
	size := min(SegmentSize, s.limit/Block*Block)
	for {
		id, err := s.next()
		if err != nil {
			return nil, err
		}
		h, err := s.segments.Publish(segmentName(id), 0o600, func(fd int) error {
			// Whole from the beginning: some file systems take room beyond the end of a file that grows.
			return truncate(fd, size)
		})
		if errors.Is(err, fs.ErrExist) {
			continue // the numbers began anew
		} else if err != nil {
			return nil, fmt.Errorf("stage: a new segment: %w", err)
		}
		fault.Point("stage.segment")
		return &segment{id: id, hold: h, size: size}, nil
	}
}

// retire ends the hold of a segment to which nothing is appended any more.
func (s *Shelf) retire(seg *segment) error {
	err := seg.hold.Release()
	fault.Point("stage.retired")
	return errors.Join(err, s.removeEmpty(seg.id))
}

// maxDescriptors is how many segments are kept open for reading: 8 GiB of small objects, and a small part of the 1024 files that a process may usually have.
const maxDescriptors = 128

// descriptors are segments that are open for reading and punching.
type descriptors struct {
	max  int
	mu   sync.Mutex
	all  []*descriptor // kept, the one that was used last at the end
	done bool
}

// descriptor is an open segment. Its number is closed when it is no longer kept and nobody uses it, so never under a reader.
type descriptor struct {
	id    uint64
	fd    int
	users int
	kept  bool
}

// get returns the segment's descriptor, to be given back by put.
func (c *descriptors) get(dir *lease.Dir, id uint64) (*descriptor, error) {
	c.mu.Lock()
	if d := c.find(id); d != nil {
		d.users++
		c.mu.Unlock()
		return d, nil
	}
	c.mu.Unlock()
	fd, err := openat(dir.Fd(), segmentName(id), unix.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.find(id); d != nil { // another goroutine was first
		d.users++
		closeFD(fd)
		return d, nil
	}
	d := &descriptor{id: id, fd: fd, users: 1}
	if c.done {
		return d, nil
	}
	if len(c.all) == c.max {
		// The one that was not used for the longest time; all in use: this one is not kept.
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

// find returns a kept descriptor and makes it the last used one. The list is searched from its end: reads of one time are of few segments.
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

// forget keeps a segment open no longer than it is used.
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
		d.fd = -1 // the number may be another file's soon
	}
}

// close keeps nothing open any longer than it is used.
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

// closeFD closes a descriptor through which nothing was written: there is no error to tell of.
func closeFD(fd int) { _ = unix.Close(fd) }
