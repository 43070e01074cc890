//go:build unix

package stage

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leat/stage/internal/index"
	"leat/stage/internal/store"
)

// reserve reserves space for an object and evicts others if needed. It returns nil without an error
// if there is no space because everything else is in use.
func (p *Pool) reserve(charge int64) (*index.Reservation, error) {
	for {
		res, taken, err := p.index.Reserve(charge, p.limits())
		if err != nil {
			return nil, err
		}
		if taken && p.diskHas(charge) {
			return res, nil
		}
		if taken {
			res.Release()
		}
		if !p.evict(charge, 1) {
			return nil, nil
		}
	}
}

// grow enlarges the reservation of a copy in progress, evicting others if needed.
func (p *Pool) grow(res *index.Reservation, n int64) bool {
	for {
		if p.diskHas(n) && res.Grow(n, p.limits()) {
			return true
		}
		if !p.evict(n, 0) {
			return false
		}
	}
}

// evict removes objects, as Options.Keep requires, until n more bytes and the given number of files
// fit. It reports whether they may fit now.
func (p *Pool) evict(n, files int64) bool {
	enough := func() bool {
		bytes, objects := p.index.Taken()
		return bytes <= p.o.MaxBytes-n && objects <= p.o.MaxFiles-files && p.diskHas(n)
	}
	_, err := p.evictUntil(enough)
	if err != nil {
		p.warnOnce(err)
	}
	return err == nil && !p.index.Broken() && enough()
}

// evictUntil removes unused objects until enough returns true or none is left, and returns their
// number.
func (p *Pool) evictUntil(enough func() bool) (removed int, err error) {
	if p.o.Keep == Epochs {
		removed, err = p.index.EvictForEpochs(enough)
	} else {
		removed, err = p.index.Evict(enough)
	}
	p.count(countEvicted, int64(removed))
	return removed, err
}

// freeReplaced removes the earlier versions of an object that nobody uses, and reports whether any
// are still in use. The caller holds the lock of its key.
func (p *Pool) freeReplaced(k index.Key) (left bool) {
	n, left, err := p.index.FreeReplaced(k)
	if err != nil {
		p.warnOnce(err)
	}
	p.count(countEvicted, int64(n))
	return left
}

// freeDisk removes objects until about n bytes of the full disk have become free. It reports
// whether it removed any.
func (p *Pool) freeDisk(n int64) bool {
	before, _ := p.index.Taken()
	removed, err := p.evictUntil(func() bool {
		now, _ := p.index.Taken()
		return before-now >= n
	})
	return removed > 0 && err == nil
}

// diskHas reports whether MinFree of the disk stays free after n more bytes.
func (p *Pool) diskHas(n int64) bool {
	if p.o.MinFree == 0 || p.spare.take(n) {
		return true
	}
	var st unix.Statfs_t
	if unix.Fstatfs(p.dir.Fd(), &st) != nil {
		return true
	}
	left := float64(st.Bavail)*float64(st.Bsize) - p.o.MinFree*float64(st.Blocks)*float64(st.Bsize)
	p.spare.set(left - float64(n))
	return left >= float64(n)
}

const (
	// spareFrom is the free space beyond MinFree, in bytes, from which a pool does not look at the
	// disk for each object: the kernel adds the counts of all processors each time.
	spareFrom = 4 << 30
	// spareShare of that space may be used without another look, by each process.
	spareShare = 1.0 / 64
	// spareTime limits the time without another look. No disk takes the rest in it.
	spareTime = 10 * time.Millisecond
)

// spareSpace is space of the disk that was free a moment ago.
type spareSpace struct {
	bytes atomic.Int64
	until atomic.Int64 // Unix time in nanoseconds
}

// set notes that so many bytes beyond MinFree are free.
func (s *spareSpace) set(left float64) {
	if left >= spareFrom {
		s.bytes.Store(int64(min(left*spareShare, math.MaxInt64/2)))
		s.until.Store(time.Now().Add(spareTime).UnixNano())
	}
}

// take takes n of the bytes and reports whether that many were left.
func (s *spareSpace) take(n int64) bool {
	left := time.Duration(s.until.Load() - time.Now().UnixNano())
	return left > 0 && left <= spareTime && s.bytes.Add(-n) >= 0
}

// warnFull warns about a full disk, at most once a minute.
func (p *Pool) warnFull(err error) {
	now := time.Now().UnixNano()
	if last := p.diskFull.Load(); now-last > int64(time.Minute) && p.diskFull.CompareAndSwap(last, now) {
		p.o.Logger.Warn("objects not staged: disk full", "dir", p.dir.Path(), "left", store.Lacking(p.dir.Fd(), err),
			"error", err)
	}
}

// warnOnce warns that the directory can't be used. It does so once.
func (p *Pool) warnOnce(err error) {
	if p.warned.CompareAndSwap(false, true) {
		p.o.Logger.Warn("objects read without being staged", "error", err)
	}
}
