//go:build unix

package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// errBad is a miss whose slot leads to a damaged record.
var errBad = fmt.Errorf("%w: its record is damaged", ErrMiss)

// Get returns a copy of entry i. The caller owns it. Where there is no entry, or none that can be read, the error is ErrMiss; one of which no copy
// fits into the machine's memory is another error. An empty entry is an empty slice that is not nil. It takes no lock and, once the entry was touched, makes no system call.
func (c *Cache) Get(i int64) (data []byte, err error) {
	if err := c.enter(i); err != nil {
		return nil, err
	}
	old, user := debug.SetPanicOnFault(true), false
	defer c.leave(i, old, &user, &err)
	b, own, err := c.lookup(i)
	if err != nil {
		return nil, asMiss(err)
	}
	if own {
		return b, nil
	}
	if err := checkMemory(i, int64(len(b))); err != nil {
		return nil, err
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
	if err == nil {
		err = checkMemory(i, int64(len(b)))
	}
	if err != nil {
		return dst, asMiss(err)
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
		return asMiss(err)
	}
	user = true
	return f(b)
}

// GetMany is Get for many entries in one call: result k is that of slots[k], nil where there is none. Slots out of range are an error
// before anything is read. With that error or another one of Get's (a closed cache, also one that is closed meanwhile; an entry of which no copy fits into
// memory) there are no results.
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
	faulted, err := c.guard(func() error {
		_, ok, _ = c.filled(i)
		return nil
	})
	if faulted {
		c.forget(i)
	}
	return ok, err
}

// asMiss is the error of a lookup for callers: a miss does not tell why.
func asMiss(err error) error {
	if errors.Is(err, ErrMiss) {
		return ErrMiss
	}
	return err
}

// lookup returns the bytes of entry i, in the mapping or in memory of their own. The error is ErrMiss, errBad, or that of checkMemory. It
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
	r, err := c.readHead(i, offset)
	_, mapped := c.mapped(r)
	switch {
	case err != nil:
		return offset, false, err
	case c.verify == VerifyNever && mapped, c.verify != VerifyAlways && c.verified.has(i):
		return offset, true, nil
	case !mapped && checkMemory(i, r.length) != nil: // nobody can get it here, which makes it no worse
		return offset, true, nil
	}
	err = c.sound(context.Background(), r)
	return offset, err == nil, err
}

// forget drops what is believed of the file and of entry i, after a fault: somebody has cut the file off, or its disk fails.
func (c *Cache) forget(i int64) {
	c.size.Store(0)
	c.verified.remove(i)
}

// readHead returns the header of the record at an offset that stood in slot i, checked against the file's end.
func (c *Cache) readHead(i, offset int64) (r record, err error) {
	if !c.mayBegin(offset) || !c.inFile(offset+recordHead) {
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

// mayBegin tells whether a record may begin there.
func (c *Cache) mayBegin(offset int64) bool {
	return offset >= c.h.base() && offset%align == 0 && offset <= maxOffset
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
	if b, ok := c.mapped(r); ok {
		if verify == VerifyNever || verify == VerifyFirst && c.verified.has(r.slot) {
			return b, false, nil
		}
		if err := c.compare(r, crc32.Checksum(b, castagnoli)); err != nil {
			return nil, false, err
		}
		return b, false, nil
	}
	// Never from the page table, and so verified whatever is set. A header says any length: memory for much is taken when the data are known to be right.
	if err := checkMemory(r.slot, r.length); err != nil {
		return nil, false, err
	}
	if r.length > largeRecord {
		if err := c.sound(context.Background(), r); err != nil {
			return nil, false, errBad
		}
	}
	b = make([]byte, r.length)
	if n, err := preadFull(c.fd, b, r.offset+recordHead); int64(n) < r.length || err != nil {
		c.count(countBad, 1)
		return nil, false, errBad
	}
	if err := c.compare(r, crc32.Checksum(b, castagnoli)); err != nil {
		return nil, false, err
	}
	return b, true, nil
}

// largeRecord is what is read twice rather than that memory is taken for damaged data.
const largeRecord = 64 << 20

// sound verifies the data of a record, whatever is set, and takes no memory for them. The error is errBad, that of ctx where there is no mapping, or one
// of the disk.
func (c *Cache) sound(ctx context.Context, r record) error {
	if b, ok := c.mapped(r); ok {
		return c.compare(r, crc32.Checksum(b, castagnoli))
	}
	sum, err := c.sumByPieces(ctx, r)
	if err != nil {
		if context.Cause(ctx) == nil { // else nothing is known of it
			c.count(countBad, 1)
		}
		return err
	}
	return c.compare(r, sum)
}

// mapped returns the data of a record in the mapping, if they lie there.
func (c *Cache) mapped(r record) (b []byte, ok bool) {
	if r.end() > int64(len(c.m.data)) {
		return nil, false
	}
	return c.m.data[r.offset+recordHead : r.end() : r.end()], true
}

// compare tells whether the checksum of the data that were found is the record's.
func (c *Cache) compare(r record, sum uint32) error {
	if sum != r.sum {
		c.verified.remove(r.slot)
		c.count(countBad, 1)
		return errBad
	}
	c.verified.add(r.slot)
	return nil
}

var pieces = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// sumByPieces reads the data of a record, not by the mapping, and returns their checksum. A file that ends within them is errBad, anything else
// an error of the disk, or the cause of ctx. It counts neither.
func (c *Cache) sumByPieces(ctx context.Context, r record) (sum uint32, err error) {
	b := pieces.Get().(*[1 << 20]byte)
	defer pieces.Put(b)
	for at, end := r.offset+recordHead, r.end(); at < end; {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		part := b[:min(int64(len(b)), end-at)]
		n, err := preadFull(c.fd, part, at)
		if err == nil {
			err = fault.Error("cache.read")
		}
		switch {
		case err != nil:
			return 0, err
		case n < len(part):
			return 0, errBad
		}
		sum = crc32.Update(sum, castagnoli, part)
		at += int64(n)
	}
	return sum, nil
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
