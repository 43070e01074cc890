//go:build unix

package stage

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"leat/stage/internal/ledger"
)

// reserve takes room for an object, and evicts others for it. nil without an error: there is none, for what is there is in use.
func (p *Pool) reserve(charge int64) (*ledger.Room, error) {
	for {
		room, taken, err := p.books.Reserve(charge, p.limits())
		if err != nil {
			return nil, err
		}
		if taken && p.diskHas(charge) {
			return room, nil
		}
		if taken {
			room.Release()
		}
		if !p.evict(charge, 1) {
			return nil, nil
		}
	}
}

// grow takes more room for a copy under way.
func (p *Pool) grow(room *ledger.Room, n int64) bool {
	for {
		if p.diskHas(n) && room.Grow(n, p.limits()) {
			return true
		}
		if !p.evict(n, 0) {
			return false
		}
	}
}

// evict removes what was not used for longest until there is room for n bytes and so many objects more. It reports whether there may be now.
func (p *Pool) evict(n, files int64) bool {
	enough := func() bool {
		bytes, objects := p.books.Taken()
		return bytes <= p.o.MaxBytes-n && objects <= p.o.MaxFiles-files && p.diskHas(n)
	}
	gone, err := p.books.Evict(enough)
	p.count(countEvicted, int64(gone))
	if err != nil {
		p.warnOnce(err)
	}
	return err == nil && !p.books.Broken() && enough()
}

// freeDisk removes objects until about n bytes of the disk have become free, since the disk is full. It reports whether any went.
func (p *Pool) freeDisk(n int64) bool {
	before, _ := p.books.Taken()
	gone, err := p.books.Evict(func() bool {
		now, _ := p.books.Taken()
		return before-now >= n
	})
	p.count(countEvicted, int64(gone))
	return gone > 0 && err == nil
}

// diskHas tells whether n bytes more leave as much of the disk free as is to be.
func (p *Pool) diskHas(n int64) bool {
	if p.o.MinFree == 0 {
		return true
	}
	var st unix.Statfs_t
	if unix.Fstatfs(p.dir.Fd(), &st) != nil {
		return true
	}
	return float64(st.Bavail)*float64(st.Bsize)-float64(n) >= p.o.MinFree*float64(st.Blocks)*float64(st.Bsize)
}

// warnFull tells once a minute that the disk is full.
func (p *Pool) warnFull(err error) {
	now := time.Now().UnixNano()
	if last := p.diskFull.Load(); now-last > int64(time.Minute) && p.diskFull.CompareAndSwap(last, now) {
		p.o.Warn(fmt.Errorf("stage: objects are read without being staged, for the disk of %s is full: free some, or set a lower limit (%w)", p.dir.Path(), err))
	}
}

// warnOnce tells that the directory can't be used as it should.
func (p *Pool) warnOnce(err error) {
	if p.warned.CompareAndSwap(false, true) {
		p.o.Warn(fmt.Errorf("stage: objects are read without being staged: %w", err))
	}
}
