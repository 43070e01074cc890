//go:build unix

package cache

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/bytepool"
	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/procfile"
	"leat/internal/tempfile"
)

// Cache is a cache opened by this process. Its methods may be called concurrently, and by many
// processes on the same file. Close waits for running calls; later ones return ErrClosed.
//
// Lock order: putting.mu, then indexMu, then windows.mu. flights.mu, batch.mu and freeExtents.mu
// are never held together with others. Among the file locks: fill, then write, then index page.
type Cache struct {
	h           header
	sums        *crc32.Table // of its checksums
	fd          int          // raw, since the garbage collector closes an unreachable os.File
	path        string
	readOnly    bool
	verify      Verify
	durable     Durability
	opts        Options
	limit       int64 // largest file that this process may write (ulimit -f)
	noHoleReads bool  // a load from a hole allocates it, so index pages are first checked with pread

	// The hidden name of a nameless cache, where the file system has no unnamed files. Otherwise
	// dir is -1.
	dir    int
	hidden string

	m      *mapping
	tail   *atomic.Uint64
	shared sharedWords
	size   atomic.Int64 // last known size of the file

	buffers   bytepool.Pool // of Get
	drainGate drainGate
	verified  bitset // slots
	present   bitset // index pages allocated on the disk

	indexMu      sync.Mutex
	putting      putting
	freeExtents  freeExtents
	batch        batch
	flights      flights
	noSpaceSince atomic.Int64 // nanoseconds since begun; 0 while there is space
	begun        time.Time
	warnNoSpace  sync.Once
	warnFull     sync.Once
}

// Offsets of the file locks, beyond all records.
const (
	lockIndex = 1 << 60   // + index page: allocating it
	lockHold  = 1 << 61   // shared by all that have it open
	lockWrite = 1<<61 + 1 // shared by running puts; exclusive: a put by plain stores, Preserve
	lockOpen  = 1<<61 + 2 // exclusive: a process opens the file
	lockFill  = 1 << 62   // + slot: filling it
)

// open returns a Cache on an open file that it owns and closes on error. The caller has taken the
// hold lock.
func open(fd int, path string, o Options, readOnly bool) (c *Cache, err error) {
	c = &Cache{fd: fd, path: path, readOnly: readOnly, verify: o.Verify, opts: o, dir: -1, limit: fdio.FileLimit(),
		noHoleReads: loadsAllocate(fd), begun: time.Now()}
	defer func() { _, _ = lock(fd, lockOpen, unlocked) }() // taken by hold
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
			if c.m != nil {
				err = errors.Join(err, c.m.close())
			}
			c = nil
		}
	}()
	h, page, size, err := readHeader(fd)
	if err != nil {
		return c, err
	}
	_, sealed := parseSeal(page)
	readOnly = readOnly || sealed // a sealed file does not change
	c.h, c.sums, c.readOnly = h, table(h.version), readOnly
	if c.m, err = mapFile(fd, h.n, readOnly); err != nil {
		return c, err
	}
	c.size.Store(size)
	c.verified = newBitset(h.n)
	c.present = newBitset((h.n + slotsOnPage - 1) / slotsOnPage)
	c.flights.m = map[int64]*flight{}
	c.durable = max(o.Durability, h.durability)
	c.tail = wordAt(c.m.head, tailAt)
	if readOnly {
		c.shared = sharedWords{new(counterWords), new(counterWords), new(atomic.Uint64)}
		c.tail = new(atomic.Uint64)
		c.tail.Store(le.Uint64(page[tailAt:]))
	} else {
		c.shared = sharedWordsOf(c.m.head, h.version)
	}
	boot, _ := procfile.BootID() // zero if unknown
	// Data not flushed before a reboot may be missing.
	lost := h.flags&flagNameless == 0 && !sealed && (boot != h.boot || boot == [16]byte{})
	if lost {
		c.verify = VerifyAlways
	}
	if !readOnly {
		_, err = c.guard(func() error {
			if err := c.raiseTail(size, lost); err != nil {
				return err
			}
			return c.lowerTail()
		})
	}
	return c, err
}

// lowerTail moves a tail beyond the end of the file back to it: page 0 was damaged, or writers were
// killed before they wrote. It does nothing while other processes, which may write there, have the
// cache open.
func (c *Cache) lowerTail() error {
	if int64(c.tail.Load()&^frozen) <= roundUp(c.size.Load(), align) {
		return nil
	}
	if alone, err := lock(c.fd, lockHold, exclusive); !alone || err != nil {
		return nil // without working locks, other processes can't be excluded
	}
	var st unix.Stat_t
	err := unix.Fstat(c.fd, &st)
	if err == nil {
		end := roundUp(min(st.Size, maxOffset-align), align)
		if w := c.tail.Load(); int64(w&^frozen) > end {
			c.tail.Store(w&frozen | uint64(end))
		}
	}
	if _, err1 := lock(c.fd, lockHold, shared); err1 != nil {
		err = errors.Join(err, err1)
	}
	if err != nil {
		return fmt.Errorf("comparing the tail with the file: %w", err)
	}
	return nil
}

// raiseTail moves the tail to the end of the file if page 0 is older than the records: in a copy
// made during puts and, if always is set, after a power loss. Failed puts leave only holes beyond
// the tail.
func (c *Cache) raiseTail(size int64, always bool) error {
	end := roundUp(min(size, maxOffset-align), align)
	isLow := func(w uint64) bool {
		tail := int64(w &^ frozen)
		return tail < end && (always || c.hasData(tail, size))
	}
	if !isLow(c.tail.Load()) {
		return nil
	}
	// If begin reports false, Preserve holds the lock: the cache is frozen and its tail unused.
	if ok, err := c.putting.begin(context.Background(), c); !ok || err != nil {
		return err
	}
	defer c.putting.end(c)
	for w := c.tail.Load(); isLow(w) && !c.tail.CompareAndSwap(w, w&frozen|uint64(end)); {
		w = c.tail.Load()
	}
	return nil
}

// hasData reports whether a range of the file from a tail on holds anything but holes, apart from
// zeros up to the next page.
func (c *Cache) hasData(from, to int64) bool {
	b := pages.Get().(*[pageSize]byte)
	defer pages.Put(b)
	page := min(roundUp(from, pageSize), to)
	n, err := fdio.ReadFull(c.fd, b[:page-from], from)
	if err != nil || !bytes.Equal(b[:n], zeroPage[:n]) {
		return true
	}
	data, _, err := dataRange(c.fd, page)
	return err != nil || data >= 0 && data < to
}

// readHeader reads and checks page 0 of an open file.
func readHeader(fd int) (h header, page []byte, size int64, err error) {
	if err := checkHost(); err != nil {
		return header{}, nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return header{}, nil, 0, fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return header{}, nil, 0, fmt.Errorf("%w: it is not a regular file", ErrFormat)
	}
	page = make([]byte, pageSize)
	n, err := fdio.ReadFull(fd, page, 0)
	if err != nil {
		return header{}, nil, 0, fmt.Errorf("reading: %w", err)
	}
	h, err = parseHeader(page[:n], st.Size)
	return h, page, st.Size, err
}

// enter starts a call on slot i, which drainGate.leave(i) ends.
func (c *Cache) enter(i int64) error {
	if uint64(i) >= uint64(c.h.n) {
		return fmt.Errorf("%w: slot %d of a cache with %d slots, numbered from 0", errRange, i, c.h.n)
	}
	if !c.drainGate.enter(i) {
		return ErrClosed
	}
	return nil
}

// count adds to a counter shared by all processes.
func (c *Cache) count(which int, n int64) { c.shared.atomic[which].Add(uint64(n)) }

// N returns the number of slots.
func (c *Cache) N() int64 { return c.h.n }

// UUID returns the identity of the file: 32 hexadecimal digits, unique to each cache.
func (c *Cache) UUID() string { return hex.EncodeToString(c.h.uuid[:]) }

// Close closes the cache in this process after running calls return; within the function of a View,
// a GetOrFill or an Each it deadlocks. Slices from View must not be used any more. A second Close
// does nothing.
func (c *Cache) Close() error {
	if !c.drainGate.close() {
		return nil
	}
	var err error
	if c.durable == DurabilityBatch && !c.readOnly && c.h.flags&flagNameless == 0 {
		err = c.flush()
	}
	c.releaseFree()
	err = errors.Join(err, c.m.close())
	if c.hidden != "" {
		// The last holder removes the name. Each first releases its own lock, so that of several
		// that close at the same time one is the last. A process that attaches meanwhile waits and
		// gets the file.
		_, _ = lock(c.fd, lockHold, unlocked)
		fault.Point("cache.closing")
		if last, _ := lock(c.fd, lockHold, exclusive); last && tempfile.Leads(c.dir, c.hidden, c.fd) {
			err = errors.Join(err, unlink(c.dir, c.hidden))
		}
	}
	if c.dir >= 0 {
		err = errors.Join(err, unix.Close(c.dir))
	}
	return errors.Join(err, closeLocked(c.fd))
}

// releaseFree returns free extents at the end of the file, left by failed puts. Otherwise processes
// that start and exit while the disk is full would use up the limit.
func (c *Cache) releaseFree() {
	if c.readOnly || !c.freeExtents.any.Load() {
		return
	}
	_, _ = c.guard(func() error {
		if ok, err := c.putting.begin(context.Background(), c); !ok || err != nil {
			return err
		}
		defer c.putting.end(c)
		c.freeExtents.trim(c.tail)
		return nil
	})
}

// closeLocked unlocks and closes a file. Closing alone is not enough: until its exec, a child being
// started has the descriptor too.
func closeLocked(fd int) error {
	_, _ = lock(fd, lockHold, unlocked)
	return unix.Close(fd)
}
