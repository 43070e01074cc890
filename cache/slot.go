//go:build unix

package cache

import (
	"bytes"
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
)

func slotAt(i int64) int64 { return pageSize + 8*i }

// loadSlot returns the offset in slot i, 0 for none. It accesses the mapping.
func (c *Cache) loadSlot(i int64) int64 {
	if c.noHoleReads && !c.present.has(i/slotsOnPage) && !c.findPage(i/slotsOnPage) {
		return 0
	}
	at := slotAt(i)
	if at+8 <= int64(len(c.m.head)) {
		return int64(wordAt(c.m.head, at).Load())
	}
	w, word, err := c.m.win.word(at)
	if err != nil { // out of address space
		var b [8]byte
		if n, err := fdio.ReadFull(c.fd, b[:], at); n < 8 || err != nil {
			return 0
		}
		return int64(le.Uint64(b[:]))
	}
	defer c.releaseWindow(w)
	return int64(word.Load())
}

// swapSlot changes slot i from one offset to another and reports whether it did. It accesses the
// mapping. The slot's page must be allocated, see allocatePage.
func (c *Cache) swapSlot(i, from, to int64) (bool, error) {
	at := slotAt(i)
	if at+8 <= int64(len(c.m.head)) {
		return wordAt(c.m.head, at).CompareAndSwap(uint64(from), uint64(to)), nil
	}
	w, word, err := c.m.win.word(at)
	if err != nil {
		return false, err
	}
	defer c.releaseWindow(w)
	return word.CompareAndSwap(uint64(from), uint64(to)), nil
}

// releaseWindow is deferred. It must identify a fault in the window before the window may be
// unmapped and its addresses reused.
func (c *Cache) releaseWindow(w *window) {
	r := recover()
	e, ok := r.(interface{ Addr() uintptr })
	ours := ok && within(w.b, e.Addr())
	c.m.win.release(w)
	switch {
	case ours:
		fault.Point("cache.released")
		panic(windowFault{e.Addr()})
	case r != nil:
		panic(r)
	}
}

var pages = sync.Pool{New: func() any { return new([pageSize]byte) }}

// findPage reports whether a page of the index has any entry. Unlike a load from a hole on tmpfs,
// it does not allocate the page.
func (c *Cache) findPage(page int64) bool {
	b := pages.Get().(*[pageSize]byte)
	defer pages.Put(b)
	n, err := fdio.ReadFull(c.fd, b[:], slotAt(page*slotsOnPage))
	n = int(min(int64(n), 8*(c.h.n-page*slotsOnPage))) // records may begin on the last page
	if err != nil || bytes.Equal(b[:n], zeroPage[:n]) {
		return false
	}
	c.present.add(page)
	return true
}

var zeroPage [pageSize]byte

// allocatePage allocates a page of the index before the first store into it by this process: a
// store into a hole of a full file system raises a signal. It reports false if there is no space.
func (c *Cache) allocatePage(page int64) (bool, error) {
	if c.present.has(page) {
		return true, nil
	}
	c.indexMu.Lock()
	defer c.indexMu.Unlock()
	if c.present.has(page) || c.findPage(page) {
		return true, nil
	}
	// One process at a time, so that none frees what another has just allocated.
	for pause := shortPause(); ; pause.Sleep() {
		ok, err := lock(c.fd, lockIndex+page, exclusive)
		if err != nil {
			return false, err
		}
		if ok {
			break
		}
	}
	defer lock(c.fd, lockIndex+page, unlocked)
	at := slotAt(page * slotsOnPage)
	length := min(pageSize, slotAt(c.h.n)-at)
	err := fault.Error("cache.index")
	if err == nil {
		err = allocate(c.fd, at, length)
	}
	switch {
	case noSpace(err):
		// Blocks smaller than the page may be partly allocated, which would keep the disk full.
		// Free them unless others store there already.
		if blockSize(c.fd) < pageSize && !c.findPage(page) {
			punch(c.fd, at, length)
		}
		return false, nil
	case errors.Is(err, errors.ErrUnsupported):
		// The store allocates it; a fault is handled too.
	case err != nil:
		return false, err
	}
	c.present.add(page)
	return true, nil
}

// noSpace reports whether an error only means that there is no space now.
func noSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
