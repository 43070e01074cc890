//go:build unix

package cache

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/procfile"
)

// Cache is a cache that this process has open. All methods may be called by many goroutines at once, and by many processes, on the same
// file; Close waits for calls that run. After Close they return ErrClosed.
//
// Order of its locks: putting.mu, then indexMu, then the windows'. flights.mu, batch.mu and spare.mu are taken alone. Of the locks on the file, a
// filler's comes before a writer's, and that before one on a page of the index.
type Cache struct {
	h        header
	fd       int // raw: an os.File would be closed when the collector finds it unused
	path     string
	readOnly bool
	verify   Verify
	durable  Durability
	opts     Options
	limit    int64 // of the file, for this process alone: ulimit -f
	lazy     bool  // a load of a hole takes room: index pages are looked at by pread first

	// The hidden name of a nameless cache, where the file system has no unnamed files; dir is -1 otherwise.
	dir    int
	hidden string

	m        *mapping
	tail     *atomic.Uint64
	counters *[counters]atomic.Uint64
	size     atomic.Int64 // of the file, when it was asked for last

	gate     gate
	verified bitset // slots
	present  bitset // pages of the index that have room on the disk

	indexMu      sync.Mutex
	putting      putting
	spare        spare
	batch        batch
	flights      flights
	noSpaceSince atomic.Int64 // nanoseconds since begun, 0 while there is room
	begun        time.Time
	toldNoSpace  sync.Once
	toldFull     sync.Once
}

// Where locks on the file stand, beyond all records.
const (
	lockIndex = 1 << 60   // + page of the index: who gives it room
	lockHold  = 1 << 61   // shared by all who have it open
	lockWrite = 1<<61 + 1 // shared by puts in flight
	lockFill  = 1 << 62   // + slot: who fills it
)

// open makes a Cache of an open file, which it takes over and closes on error. The hold lock is taken.
func open(fd int, path string, o Options, readOnly bool) (c *Cache, err error) {
	c = &Cache{fd: fd, path: path, readOnly: readOnly, verify: o.Verify, opts: o, dir: -1, limit: fileLimit(), lazy: loadsAllocate(fd), begun: time.Now()}
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
	readOnly = readOnly || sealed // nobody counts in a final file
	c.h, c.readOnly = h, readOnly
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
		c.counters = new([counters]atomic.Uint64)
		c.tail = new(atomic.Uint64)
		c.tail.Store(le.Uint64(page[tailAt:]))
	} else {
		c.counters = countersOf(c.m.head)
	}
	boot, _ := procfile.BootID() // zero where it can't be known
	// What was not on the disk may be lost since.
	lost := h.flags&flagNameless == 0 && !sealed && (boot != h.boot || boot == [16]byte{})
	if lost {
		c.verify = VerifyAlways
	}
	if !readOnly {
		_, err = c.guard(func() error { c.raiseTail(size, lost); return nil })
	}
	return c, err
}

// raiseTail moves the tail behind the end of the file where page 0 is older than the records: in a copy that was made while others put, and, whatever
// there is to be seen, after a loss of power. What failed puts left behind the tail are holes.
func (c *Cache) raiseTail(size int64, always bool) {
	end := roundUp(min(size, maxOffset-align), align)
	for {
		w := c.tail.Load()
		tail := int64(w &^ frozen)
		if tail >= end || !always && !c.hasData(tail, size) || c.tail.CompareAndSwap(w, w&frozen|uint64(end)) {
			return
		}
	}
}

// hasData tells whether a range of the file, from a tail on, holds anything but holes and zeros up to the next page.
func (c *Cache) hasData(from, to int64) bool {
	b := pages.Get().(*[pageSize]byte)
	defer pages.Put(b)
	page := min(roundUp(from, pageSize), to)
	n, err := preadFull(c.fd, b[:page-from], from)
	if err != nil || !bytes.Equal(b[:n], zeroPage[:n]) {
		return true
	}
	data, _, err := dataRange(c.fd, page)
	return err != nil || data >= 0 && data < to
}

// readHeader reads page 0 of an open file and checks that it is a cache.
func readHeader(fd int) (h header, page []byte, size int64, err error) {
	if err := checkHost(); err != nil {
		return header{}, nil, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return header{}, nil, 0, fmt.Errorf("cache: looking at the file: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return header{}, nil, 0, fmt.Errorf("%w: it is no regular file", ErrFormat)
	}
	page = make([]byte, pageSize)
	n, err := preadFull(fd, page, 0)
	if err != nil {
		return header{}, nil, 0, fmt.Errorf("cache: reading: %w", err)
	}
	h, err = parseHeader(page[:n], st.Size)
	return h, page, st.Size, err
}

// preadFull reads until b is full or the file ends.
func preadFull(fd int, b []byte, at int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(fd, b[done:min(len(b), done+math.MaxInt32&^(pageSize-1))], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case n == 0:
			return done, nil
		}
		done += n
	}
	return done, nil
}

// enter lets a call for slot i in; gate.leave(i) ends it.
func (c *Cache) enter(i int64) error {
	if uint64(i) >= uint64(c.h.n) {
		return fmt.Errorf("%w: slot %d of a cache with %d slots, numbered from 0", ErrRange, i, c.h.n)
	}
	if !c.gate.enter(i) {
		return ErrClosed
	}
	return nil
}

// count adds to a counter that all processes share.
func (c *Cache) count(which int, n int64) { c.counters[which].Add(uint64(n)) }

// N returns the number of slots.
func (c *Cache) N() int64 { return c.h.n }

// UUID identifies the file: 32 hexadecimal digits, different for every cache ever made.
func (c *Cache) UUID() string { return hex.EncodeToString(c.h.uuid[:]) }

// Path returns the name that Open or Load was given, made absolute, else "".
func (c *Cache) Path() string { return c.path }

// Close ends the use of the cache by this process, after the calls that run: within the function of a View, a GetOrFill or an Each it would wait
// for itself, for ever. Slices that View gave must not be touched any more. A second Close does nothing.
func (c *Cache) Close() error {
	if !c.gate.close() {
		return nil
	}
	var err error
	if c.durable == DurabilityBatch && !c.readOnly && c.h.flags&flagNameless == 0 {
		err = c.flush()
	}
	c.giveUpSpare()
	err = errors.Join(err, c.m.close())
	if c.hidden != "" {
		// The last one removes the name. Of several that close at the same time each gives its own hold up first, so that one of them is the last.
		// Who attaches at this moment waits, and has the file all the same.
		_, _ = lock(c.fd, lockHold, unlocked)
		fault.Point("cache.closing")
		if last, _ := lock(c.fd, lockHold, exclusive); last && leads(c.dir, c.hidden, c.fd) {
			err = errors.Join(err, unlink(c.dir, c.hidden))
		}
	}
	if c.dir >= 0 {
		err = errors.Join(err, unix.Close(c.dir))
	}
	return errors.Join(err, closeLocked(c.fd))
}

// giveUpSpare gives room that failed puts of this process left back to the file, as far as it is the last: who comes and goes while the disk is full must not
// fill a limit with it.
func (c *Cache) giveUpSpare() {
	if c.readOnly || !c.spare.any.Load() {
		return
	}
	_, _ = c.guard(func() error {
		if ok, err := c.putting.begin(c); !ok || err != nil {
			return err
		}
		defer c.putting.end(c)
		c.spare.giveUp(c.tail)
		return nil
	})
}

// closeLocked closes a file and ends the locks on it. Closing is not enough: a child that is being started has the
// descriptor too, until its exec.
func closeLocked(fd int) error {
	_, _ = lock(fd, lockHold, unlocked)
	return unix.Close(fd)
}
