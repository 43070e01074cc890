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
	"leat/internal/fdio"
)

// errBad is the miss for a slot with a damaged record.
var errBad = fmt.Errorf("%w: its record is damaged", ErrMiss)

// Get returns a copy of entry i, owned by the caller. The error is ErrMiss if there is no entry or
// it can't be read; an entry too large for the machine's memory is another error. An empty entry is
// an empty slice that is not nil. Get takes no lock and, once the entry was accessed, makes no
// system call. The caller may Recycle the copy.
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
	return c.buffers.Clone(b), nil
}

// Recycle lets later calls of Get reuse a slice that Get or GetOrFill returned. A slice of View
// must not be recycled. Neither the slice, nor a part of it, nor what was appended to it may be
// used afterwards. A slice that is recycled again is ignored, unless it was reused meanwhile or two
// goroutines recycle it at once, which can't be detected. Recycle is optional: it avoids garbage,
// the main cost of Get for large entries. The garbage collector frees what is not reused soon.
func (c *Cache) Recycle(data []byte) { c.buffers.Put(data) }

// Append appends entry i to dst and returns the extended slice, or dst unchanged with an error like
// Get.
func (c *Cache) Append(dst []byte, i int64) (data []byte, err error) {
	if err := c.enter(i); err != nil {
		return dst, err
	}
	data = dst // also after a fault
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

// View calls f with the bytes of entry i, without a copy, and returns its result; without an entry
// it returns ErrMiss and does not call f. The bytes are valid until f returns, and shared by all
// processes: a write to them crashes the program. f may use the cache but not close it. If the file
// can't be read while f runs, f is aborted at that point and View returns ErrMiss.
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

// Has reports whether slot i has an entry that can be read.
func (c *Cache) Has(i int64) (ok bool, err error) {
	if err := c.enter(i); err != nil {
		return false, err
	}
	defer c.drainGate.leave(i)
	faulted, err := c.guard(func() error {
		_, ok, _ = c.filled(i)
		return nil
	})
	if faulted {
		c.forget(i)
	}
	return ok, err
}

// asMiss hides the reason for a miss from callers.
func asMiss(err error) error {
	if err == ErrMiss || errors.Is(err, ErrMiss) { // == mostly decides; Is takes several times as long
		return ErrMiss
	}
	return err
}

// lookup returns the bytes of entry i, and whether they are a copy rather than part of the mapping.
// The error is ErrMiss, errBad, or that of checkMemory. It accesses the mapping.
func (c *Cache) lookup(i int64) (b []byte, own bool, err error) {
	offset := c.loadSlot(i)
	if offset == 0 {
		return nil, false, ErrMiss
	}
	return c.read(i, offset)
}

// filled returns the offset in slot i, and whether it has an intact entry. It accesses the mapping.
func (c *Cache) filled(i int64) (offset int64, ok bool, err error) {
	if offset = c.loadSlot(i); offset == 0 {
		return 0, false, nil
	}
	r, err := c.readHead(i, offset, c.isTrusted(i))
	_, mapped := c.mapped(r)
	switch {
	case err != nil:
		return offset, false, err
	case c.verify == VerifyNever && mapped, c.verify != VerifyAlways && c.verified.has(i):
		return offset, true, nil
	case !mapped && checkMemory(i, r.length) != nil: // too large for this machine, but not damaged
		return offset, true, nil
	}
	err = c.verifyData(context.Background(), r)
	return offset, err == nil, err
}

// forget drops cached facts about the file and entry i after a fault: the file was truncated, or
// its disk fails.
func (c *Cache) forget(i int64) {
	c.size.Store(0)
	c.verified.remove(i)
}

// isTrusted reports whether this process put or verified entry i and need not verify it again.
func (c *Cache) isTrusted(i int64) bool { return c.verify == VerifyFirst && c.verified.has(i) }

// readHead returns the header of the record at the offset of slot i, checked against the end of the
// file. The checksum of a trusted header is not compared.
func (c *Cache) readHead(i, offset int64, trusted bool) (r record, err error) {
	if !c.isRecordOffset(offset) || !c.inFile(offset+recordHead) {
		c.count(countBad, 1)
		return record{}, errBad
	}
	ok, sums := false, c.sums
	if trusted {
		sums = nil
	}
	if offset+recordHead <= int64(len(c.m.data)) {
		r, ok = parseRecord(c.m.data[offset:offset+recordHead], i, offset, sums)
	} else {
		var head [recordHead]byte
		if n, err := fdio.ReadFull(c.fd, head[:], offset); n == recordHead && err == nil {
			r, ok = parseRecord(head[:], i, offset, sums)
		}
	}
	if !ok || !c.inFile(r.end()) || r.length > math.MaxInt-recordHead {
		c.count(countBad, 1)
		return record{}, errBad
	}
	return r, nil
}

// isRecordOffset reports whether a record may begin at offset.
func (c *Cache) isRecordOffset(offset int64) bool {
	return offset >= c.h.base() && offset%align == 0 && offset <= maxOffset
}

// read returns the data of a record, verified as Options.Verify requires.
func (c *Cache) read(i, offset int64) (b []byte, own bool, err error) {
	trusted := c.isTrusted(i)
	r, err := c.readHead(i, offset, trusted)
	if err != nil {
		return nil, false, err
	}
	if b, ok := c.mapped(r); ok {
		if !trusted && c.verify != VerifyNever {
			err = c.compare(r, crc32.Checksum(b, c.sums))
		}
		if err != nil {
			return nil, false, err
		}
		return b, false, nil
	}
	b, err = c.readCopy(r)
	return b, err == nil, err
}

// readCopy returns the data of a record whose header was read, without the mapping.
func (c *Cache) readCopy(r record) (b []byte, err error) {
	// Data read without the mapping are always verified. The length may be wrong: verify the data
	// of a large record before allocating memory.
	if err := checkMemory(r.slot, r.length); err != nil {
		return nil, err
	}
	if r.length > largeRecord {
		if err := c.verifyData(context.Background(), r); err != nil {
			return nil, errBad
		}
	}
	b = c.buffers.Get(int(r.length))
	if n, err := fdio.ReadFull(c.fd, b, r.offset+recordHead); int64(n) < r.length || err != nil {
		c.count(countBad, 1)
		return nil, errBad
	}
	if err := c.compare(r, crc32.Checksum(b, c.sums)); err != nil {
		return nil, err
	}
	return b, nil
}

// largeRecord is the size from which data are verified before memory is allocated for them.
const largeRecord = 64 << 20

// verifyData verifies the data of a record regardless of the options, without allocating memory.
// The error is errBad, one of the disk, or, without a mapping, that of ctx.
func (c *Cache) verifyData(ctx context.Context, r record) error {
	if b, ok := c.mapped(r); ok {
		return c.compare(r, crc32.Checksum(b, c.sums))
	}
	sum, err := c.sumChunks(ctx, r)
	if err != nil {
		if context.Cause(ctx) == nil { // otherwise the data were not fully read
			c.count(countBad, 1)
		}
		return err
	}
	return c.compare(r, sum)
}

// mapped returns the data of a record if they are in the mapping.
func (c *Cache) mapped(r record) (b []byte, ok bool) {
	if r.end() > int64(len(c.m.data)) {
		return nil, false
	}
	return c.m.data[r.offset+recordHead : r.end() : r.end()], true
}

// compare returns errBad unless sum is the record's checksum, and records the result.
func (c *Cache) compare(r record, sum uint32) error {
	if sum != r.sum {
		c.verified.remove(r.slot)
		c.count(countBad, 1)
		return errBad
	}
	c.verified.add(r.slot)
	return nil
}

var chunks = sync.Pool{New: func() any { return new([1 << 20]byte) }}

// sumChunks reads the data of a record without the mapping and returns their checksum. The error is
// errBad if the file ends within them, an error of the disk, or the cause of ctx. It counts
// nothing.
func (c *Cache) sumChunks(ctx context.Context, r record) (sum uint32, err error) {
	b := chunks.Get().(*[1 << 20]byte)
	defer chunks.Put(b)
	for at, end := r.offset+recordHead, r.end(); at < end; {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		part := b[:min(int64(len(b)), end-at)]
		n, err := fdio.ReadFull(c.fd, part, at)
		if err == nil {
			err = fault.Error("cache.read")
		}
		switch {
		case err != nil:
			return 0, err
		case n < len(part):
			return 0, errBad
		}
		sum = crc32.Update(sum, c.sums, part)
		at += int64(n)
	}
	return sum, nil
}

// inFile reports whether the file reaches to end. It asks for the size only if the last known one
// is too small, since files don't shrink.
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
