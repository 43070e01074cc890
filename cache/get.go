//go:build unix

package cache

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// errBad is a miss whose slot leads to a damaged record.
var errBad = fmt.Errorf("%w: its record is damaged", ErrMiss)

// Get returns a copy of entry i. The caller owns it. Where there is no entry, or none that can be read, the error is ErrMiss; an
// empty entry is an empty slice that is not nil. It takes no lock and, once the entry was touched, makes no system call.
func (c *Cache) Get(i int64) (data []byte, err error) {
	if err := c.enter(i); err != nil {
		return nil, err
	}
	old, user := debug.SetPanicOnFault(true), false
	defer c.leave(i, old, &user, &err)
	b, own, err := c.lookup(i)
	if err != nil {
		return nil, ErrMiss
	}
	if own {
		return b, nil
	}
	mine := make([]byte, len(b)) // with copy, the compiler leaves the zeroing out
	copy(mine, b)
	return mine, nil
}

// Append is Get into memory of the caller's: it appends entry i to dst and returns the longer slice, or dst and the error. Readers that use one
// buffer again and again spare the collector what Get costs most for large entries.
func (c *Cache) Append(dst []byte, i int64) (data []byte, err error) {
	if err := c.enter(i); err != nil {
		return dst, err
	}
	data = dst // also where the machine fails to read the file
	old, user := debug.SetPanicOnFault(true), false
	defer c.leave(i, old, &user, &err)
	b, _, err := c.lookup(i)
	if err != nil {
		return dst, ErrMiss
	}
	longer := append(dst, b...)
	return longer, nil
}

// View calls f with the bytes of entry i, without a copy, and returns what f returns; where there is no entry it returns ErrMiss and does not call
// f. The bytes are valid until f returns, and shared by all processes: a store into them is fatal. f may use the cache, but
// not close it. When the machine fails to read the file while f runs, f is abandoned at that point and View returns
// ErrMiss.
func (c *Cache) View(i int64, f func(data []byte) error) (err error) {
	if err := c.enter(i); err != nil {
		return err
	}
	old, user := debug.SetPanicOnFault(true), false
	defer c.leave(i, old, &user, &err)
	b, _, err := c.lookup(i)
	if err != nil {
		return ErrMiss
	}
	user = true
	return f(b)
}

// GetMany is Get for many entries in one call: result k is that of slots[k], nil where there is none. The error is for slots out of
// range, before anything is read, and for a closed cache.
func (c *Cache) GetMany(slots []int64) ([][]byte, error) {
	for k, i := range slots {
		if uint64(i) >= uint64(c.h.n) {
			return nil, fmt.Errorf("%w: number %d of the list is slot %d of a cache with %d slots, numbered from 0", ErrRange, k, i, c.h.n)
		}
	}
	if c.gate.closed.Load() {
		return nil, ErrClosed
	}
	all := make([][]byte, len(slots))
	for k, i := range slots {
		b, err := c.Get(i)
		switch {
		case err == nil:
			all[k] = b
		case !errors.Is(err, ErrMiss):
			return nil, err
		}
	}
	return all, nil
}

// Has tells whether slot i has an entry that can be read.
func (c *Cache) Has(i int64) (ok bool, err error) {
	if err := c.enter(i); err != nil {
		return false, err
	}
	defer c.gate.leave(i)
	_, err = c.guard(func() error {
		_, ok, _ = c.filled(i)
		return nil
	})
	return ok, err
}

// lookup returns the bytes of entry i, in the mapping or in memory of their own. The error is ErrMiss or errBad. It
// touches the mapping.
func (c *Cache) lookup(i int64) (b []byte, own bool, err error) {
	offset := c.loadSlot(i)
	if offset == 0 {
		return nil, false, ErrMiss
	}
	return c.read(i, offset)
}

// filled tells whether slot i has a sound entry, and what offset is in it. It touches the mapping.
func (c *Cache) filled(i int64) (offset int64, ok bool, err error) {
	if offset = c.loadSlot(i); offset == 0 {
		return 0, false, nil
	}
	if c.verify != VerifyAlways && c.verified.has(i) {
		if _, err := c.readHead(i, offset); err == nil {
			return offset, true, nil
		}
	}
	_, _, err = c.read(i, offset)
	return offset, err == nil, err
}

// readHead returns the header of the record at an offset that stood in slot i, checked against the file's end.
func (c *Cache) readHead(i, offset int64) (r record, err error) {
	if offset < c.h.base() || offset%align != 0 || offset > maxOffset || !c.inFile(offset+recordHead) {
		c.count(countBad, 1)
		return record{}, errBad
	}
	var ok bool
	if offset+recordHead <= int64(len(c.m.data)) {
		r, ok = parseRecord(c.m.data[offset:offset+recordHead], i, offset)
	} else {
		var head [recordHead]byte
		if n, err := preadFull(c.fd, head[:], offset); n == recordHead && err == nil {
			r, ok = parseRecord(head[:], i, offset)
		}
	}
	if !ok || !c.inFile(r.end()) || r.length > math.MaxInt-recordHead {
		c.count(countBad, 1)
		return record{}, errBad
	}
	return r, nil
}

// read returns the data of a record, verified as the cache is set.
func (c *Cache) read(i, offset int64) (b []byte, own bool, err error) {
	r, err := c.readHead(i, offset)
	if err != nil {
		return nil, false, err
	}
	return c.readAs(c.verify, r)
}

// readAs returns the data of a record whose header was read.
func (c *Cache) readAs(verify Verify, r record) (b []byte, own bool, err error) {
	i, offset := r.slot, r.offset
	if r.end() <= int64(len(c.m.data)) {
		b = c.m.data[offset+recordHead : r.end() : r.end()]
		if verify == VerifyNever || verify == VerifyFirst && c.verified.has(i) {
			return b, false, nil
		}
	} else { // never from the page table, and so verified whatever is set
		b, own = make([]byte, r.length), true
		if n, err := preadFull(c.fd, b, offset+recordHead); int64(n) < r.length || err != nil {
			c.count(countBad, 1)
			return nil, false, errBad
		}
	}
	if crc32.Checksum(b, castagnoli) != r.sum {
		c.verified.remove(i)
		c.count(countBad, 1)
		return nil, false, errBad
	}
	c.verified.add(i)
	return b, own, nil
}

// inFile tells whether the file reaches to end. The size is asked for only when it was too small before: files don't shrink.
func (c *Cache) inFile(end int64) bool {
	if end <= c.size.Load() {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(c.fd, &st) != nil {
		return false
	}
	c.size.Store(st.Size)
	return end <= st.Size
}
