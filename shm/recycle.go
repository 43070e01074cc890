//go:build unix

package shm

import (
	"errors"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
)

// capacity rounds the bytes before the tag up to a size class: quarter steps between powers of two.
// Pages that are never written take no memory.
func capacity(used int64) int64 {
	used = roundUp(max(used, pageSize), pageSize)
	step := int64(1) << max(bits.Len64(uint64(used-1))-3, 12)
	return roundUp(used, step)
}

// recycler keeps memfds of freed arrays. Their pages exist already, so filling one again takes a
// fraction of the time. Others may still read a segment: it is used again only under the exclusive
// lock, which keeps new readers out.
type recycler struct {
	mu    sync.Mutex
	limit int64 // bytes
	bytes int64
	free  []*segment // the latest is last
}

// tries bounds the segments of a class that are tried before a new one is made: each costs three
// system calls.
const tries = 4

// take returns a segment of exactly that size, locked exclusively by the descriptor lock, or nil.
// open means that others will write to it.
func (p *recycler) take(size int64, open bool) (seg *segment, lock int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Sealed ones first, since the others can be used for everything; the oldest first, since its
	// readers are the likeliest to be gone.
	tried := 0
	for _, sealed := range []bool{true, false} {
		for i := 0; i < len(p.free) && tried < tries && !(open && sealed); i++ {
			seg := p.free[i]
			if int64(len(seg.mem)) != size || seg.sealed != sealed {
				continue
			}
			tried++
			lock, ok, err := seg.exclude()
			if err != nil {
				return nil, -1, err
			}
			if ok {
				fault.Point("shm.recycling")
				p.free = append(p.free[:i], p.free[i+1:]...)
				p.bytes -= seg.filled
				return seg, lock, nil
			}
		}
	}
	return nil, -1, nil
}

// put keeps a segment, and returns the oldest ones beyond the limits.
func (p *recycler) put(seg *segment) (out []*segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seg.filled > p.limit {
		return []*segment{seg}
	}
	p.free = append(p.free, seg)
	p.bytes += seg.filled
	for p.bytes > p.limit || len(p.free) > maxRecycled {
		out = append(out, p.free[0])
		p.bytes -= p.free[0].filled
		p.free = p.free[1:]
	}
	return out
}

// maxRecycled bounds the descriptors that are kept.
const maxRecycled = 64

// drain returns all segments.
func (p *recycler) drain() (out []*segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, p.free, p.bytes = p.free, nil, 0
	return out
}

// close returns all segments; put keeps nothing from then on.
func (p *recycler) close() []*segment {
	p.mu.Lock()
	p.limit = -1
	p.mu.Unlock()
	return p.drain()
}

// unlock admits readers again. Closing is not enough: a child that is being started has the
// descriptor too, until its exec.
func unlock(lock int) error { return errors.Join(fdio.Flock(lock, unix.LOCK_UN), unix.Close(lock)) }

// giveBack recycles or closes segments that are no longer in the registry.
func (s *Pool) giveBack(segs []*segment) error {
	var err error
	for _, seg := range segs {
		if !seg.own || seg.fd < 0 || seg.handed || !seg.write {
			err = errors.Join(err, seg.close())
			continue
		}
		err = errors.Join(err, closeAll(s.recycled.put(seg)))
	}
	return err
}
