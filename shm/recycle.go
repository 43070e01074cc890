//go:build unix

package shm

import (
	"errors"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// capacity rounds the bytes before the tag up to a size class: quarter steps between powers of two.
// What is not written takes no memory.
func capacity(used int64) int64 {
	used = roundUp(max(used, pageSize), pageSize)
	step := int64(1) << max(bits.Len64(uint64(used-1))-3, 12)
	return roundUp(used, step)
}

// pool keeps memfds whose arrays were freed. Their pages are there already, so that filling one
// again takes a fraction of the time. A segment may still be read by others: it is used again only
// when the exclusive lock is got, while which nobody gets in.
type pool struct {
	mu    sync.Mutex
	limit int64 // bytes
	bytes int64
	free  []*segment // the latest is last
}

// tries is how many segments of a class are asked for before a new one is made: each costs three
// system calls.
const tries = 4

// take returns a segment of exactly that size, held alone by the descriptor lock, or nil. open
// tells that others will write to it.
func (p *pool) take(size int64, open bool) (seg *segment, lock int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Sealed ones first: the others can be used for everything. The oldest first: its readers are
	// the likeliest to be gone.
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

// put keeps a segment, and returns those that are too many.
func (p *pool) put(seg *segment) (out []*segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seg.filled > p.limit {
		return []*segment{seg}
	}
	p.free = append(p.free, seg)
	p.bytes += seg.filled
	for p.bytes > p.limit || len(p.free) > maxPooled {
		out = append(out, p.free[0])
		p.bytes -= p.free[0].filled
		p.free = p.free[1:]
	}
	return out
}

// maxPooled bounds the descriptors that lie in the pool.
const maxPooled = 64

// drain empties the pool.
func (p *pool) drain() (out []*segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, p.free, p.bytes = p.free, nil, 0
	return out
}

// close empties the pool and keeps nothing from now on.
func (p *pool) close() []*segment {
	p.mu.Lock()
	p.limit = -1
	p.mu.Unlock()
	return p.drain()
}

// unlock lets readers in again. Closing is not enough: a child that is being started has the
// descriptor too, until its exec.
func unlock(lock int) error { return errors.Join(flock(lock, unix.LOCK_UN), unix.Close(lock)) }

// giveBack recycles or closes segments that left the registry.
func (s *Pool) giveBack(segs []*segment) error {
	var err error
	for _, seg := range segs {
		if !seg.own || seg.fd < 0 || seg.handed || !seg.write {
			err = errors.Join(err, seg.close())
			continue
		}
		err = errors.Join(err, closeAll(s.pool.put(seg)))
	}
	return err
}
