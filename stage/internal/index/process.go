//go:build unix

package index

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
	"leat/stage/internal/store"
)

// process is this process's own file, which it locks while it uses the directory.
type process struct {
	name   string
	fd     int // stays open with its lock as long as the mapping
	hold   *lockfile.Lock
	data   []byte
	h      *procHeader
	mu     sync.Mutex
	pinned uint32   // pins allocated on the disk
	pins   []uint32 // free pins
	top    uint32   // pins from here on were never used
	copies []uint32 // free copy slots
}

// join creates this process's file.
func (l *Index) join() (*process, error) {
	p := &process{name: rand.Text()}
	h, err := l.procs.Publish(p.name, 0o600, func(fd int) error {
		if err := unix.Ftruncate(fd, procSize); err != nil {
			return err
		}
		return allocate(fd, 0, pinsAt+pinsStep)
	})
	if err != nil {
		if store.Full(err) {
			return nil, fmt.Errorf("joining %s: %s is left on its disk: %w", l.dir.Path(),
				store.Lacking(l.dir.Fd(), err), err)
		}
		return nil, fmt.Errorf("joining %s: %w", l.dir.Path(), err)
	}
	p.hold, p.fd = h, h.Fd()
	if p.data, err = unix.Mmap(p.fd, 0, procSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping %s: %w", l.procs.FilePath(p.name), err), leaveHold(h))
	}
	p.h, p.pinned = at[procHeader](p.data, 0), pinsStep/4
	for i := MaxCopies - 1; i >= 0; i-- {
		p.copies = append(p.copies, uint32(i))
	}
	err = l.guard(func() error {
		p.h.pid, p.h.started = int64(os.Getpid()), time.Now().UnixNano()
		copy(p.h.magic[:], procMagic)
		fault.Point("index.joining")
		l.h.joins.Add(1) // before the first pin: eviction looks for new processes after it has marked a record
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(p.data), leaveHold(h))
	}
	return p, nil
}

func leaveHold(h *lockfile.Lock) error {
	_, err := h.RemoveIfLast(nil)
	return err
}

// leave releases what this process still holds and removes its file.
func (l *Index) leave() error {
	p := l.own
	l.own = nil
	_, err := p.hold.RemoveIfLast(func() error {
		err := l.releaseCopies(p.data)
		if err != nil { // some space stays counted
			_ = l.guard(func() error { l.h.unclean.Store(1); return nil })
		}
		return err
	})
	_ = l.guard(func() error { l.h.joins.Add(1); return nil })
	return errors.Join(err, unix.Munmap(p.data))
}

// releaseCopies frees the copies in progress of a process that ends or has died, and adds its
// counters to the directory's. The caller holds its file exclusively. Space that can't be freed
// stays counted.
func (l *Index) releaseCopies(data []byte) error {
	return l.guard(func() (err error) {
		h := at[procHeader](data, 0)
		if string(h.magic[:]) != procMagic {
			return nil // it died before it held anything, or its version differs
		}
		for i := range MaxCopies {
			c := at[copying](data, copiesAt+i*copySize)
			charge := c.charge.Load()
			if charge == 0 {
				continue
			}
			if c.place.ID != 0 {
				if err1 := l.free(c.place, charge); err1 != nil {
					err = errors.Join(err, err1)
					continue
				}
			}
			// The slot first: a kill in between leaves too much counted, not too little.
			c.charge.Store(0)
			fault.Point("index.releasing")
			l.h.files.Add(-1)
			l.h.bytes.Add(-charge)
		}
		for i := range h.counters {
			if n := h.counters[i].Swap(0); n != 0 {
				l.h.counters[i].Add(n)
			}
		}
		return err
	})
}

// sweepDead releases what dead processes held and removes their files.
func (l *Index) sweepDead() error {
	names, err := l.procs.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if l.own != nil && name == l.own.name {
			continue
		}
		if err := l.sweep(name); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the file of a process if it is dead.
func (l *Index) sweep(name string) error {
	removed, err := l.procs.SweepWith(name, func(fd int) error {
		if strings.HasPrefix(name, ".") { // an unfinished one
			return nil
		}
		if err := l.guard(func() error { l.h.unclean.Store(1); return nil }); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Size != procSize {
			return err
		}
		data, err := l.mapDead(name, &st)
		if err != nil {
			return err
		}
		// Space that can't be freed stays counted until the next check of the index, as unclean is
		// set. It must not block anyone.
		if err := l.releaseCopies(data); errors.Is(err, ErrBroken) {
			return errors.Join(err, unix.Munmap(data))
		}
		return unix.Munmap(data)
	})
	if removed {
		fault.Point("index.swept")
		_ = l.guard(func() error { l.h.joins.Add(1); return nil })
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mapDead maps the file of a dead process for reading and writing: the descriptor of a sweep is
// read-only. The caller holds the file.
func (l *Index) mapDead(name string, held *unix.Stat_t) ([]byte, error) {
	fd, err := unix.Openat(l.procs.Fd(), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", l.procs.FilePath(name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Dev != held.Dev || st.Ino != held.Ino {
		return nil, fmt.Errorf("%s was replaced by another file: %w", l.procs.FilePath(name),
			lockfile.ErrForeign)
	}
	data, err := unix.Mmap(fd, 0, procSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", l.procs.FilePath(name), err)
	}
	return data, nil
}

// peer is another process's file, mapped for its pins and counters.
type peer struct {
	name string
	data []byte
	seen bool
}

// pinsOf returns the pins of a process's file that may be set.
func pinsOf(data []byte) []atomic.Uint32 {
	n := min(at[procHeader](data, 0).pins.Load(), maxPins)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(&data[pinsAt])), n)
}

// refresh updates the list of peers. peersMu is held.
func (l *Index) refresh() error {
	joins := l.h.joins.Load()
	if joins == l.joins.Load() && joins != 0 {
		return nil
	}
	names, err := l.procs.Names()
	if err != nil {
		return err
	}
	known := map[string]*peer{}
	for _, p := range l.peers {
		p.seen = false
		known[p.name] = p
	}
	for _, name := range names {
		if p := known[name]; p != nil {
			p.seen = true
			continue
		}
		if l.own != nil && name == l.own.name || strings.HasPrefix(name, ".") {
			continue
		}
		p, err := l.openPeer(name)
		if err != nil {
			return err
		}
		if p != nil {
			l.peers = append(l.peers, p)
		}
	}
	kept := l.peers[:0]
	for _, p := range l.peers {
		if p.seen {
			kept = append(kept, p)
		} else {
			_ = unix.Munmap(p.data)
		}
	}
	clear(l.peers[len(kept):])
	l.peers = kept
	l.joins.Store(joins)
	return nil
}

func (l *Index) openPeer(name string) (*peer, error) {
	fd, err := unix.Openat(l.procs.Fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if isGone(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil // or not a regular file
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", l.procs.FilePath(name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != procSize || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, err
	}
	data, err := unix.Mmap(fd, 0, procSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", l.procs.FilePath(name), err)
	}
	return &peer{name: name, data: data, seen: true}, nil
}

func (l *Index) dropPeers() {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	for _, p := range l.peers {
		_ = unix.Munmap(p.data)
	}
	l.peers = nil
}

// findPinned sets pinned of the marked records that a live process pins.
func (l *Index) findPinned(marks []marked) error {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	if err := l.refresh(); err != nil {
		return err
	}
	if l.own != nil {
		markPinned(marks, l.own.data)
	}
	dead := false
	for _, p := range l.peers {
		if !markPinned(marks, p.data) {
			continue
		}
		// Pins of a dead process don't count. A process that removed its file may have died before
		// it incremented joins.
		if err := l.sweep(p.name); err != nil {
			return err
		}
		dead = dead || !l.procs.Exists(p.name)
	}
	if !dead {
		return nil
	}
	l.joins.Store(0) // force a refresh
	for i := range marks {
		marks[i].pinned = false
	}
	if err := l.refresh(); err != nil {
		return err
	}
	if l.own != nil {
		markPinned(marks, l.own.data)
	}
	for _, p := range l.peers {
		markPinned(marks, p.data)
	}
	return nil
}

// inUse returns which of the first n records are pinned. It is an estimate: a process may have
// died, and pins change; findPinned decides.
func (l *Index) inUse(n uint32) (bits, error) {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	if err := l.refresh(); err != nil {
		return nil, err
	}
	used := make(bits, n/64+1)
	add := func(data []byte) {
		pins := pinsOf(data)
		for i := range pins {
			if v := pins[i].Load(); v != 0 && v < n {
				used.set(v)
			}
		}
	}
	if l.own != nil {
		add(l.own.data)
	}
	for _, p := range l.peers {
		add(p.data)
	}
	return used, nil
}

// markPinned sets pinned of the records that a process's file pins, and reports whether there are
// any. There are a few records and perhaps many pins.
func markPinned(marks []marked, data []byte) (any bool) {
	pins := pinsOf(data)
	for i := range pins {
		v := pins[i].Load()
		if v == 0 {
			continue
		}
		for j := range marks {
			if marks[j].rec == v {
				marks[j].pinned, any = true, true
			}
		}
	}
	return any
}

// pin sets a pin to a record and returns the pin's number.
func (p *process) pin(record uint32) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var n uint32
	if k := len(p.pins); k > 0 {
		n = p.pins[k-1]
		p.pins = p.pins[:k-1]
	} else {
		if p.top == p.pinned {
			if p.pinned >= maxPins {
				return 0, fmt.Errorf("%w: this process uses %d objects", ErrFull, maxPins)
			}
			if err := allocate(p.fd, pinsAt+4*int64(p.pinned), pinsStep); err != nil {
				return 0, fmt.Errorf("%w: %w", ErrFull, err)
			}
			p.pinned += pinsStep / 4
		}
		n = p.top
		p.top++
		p.h.pins.Store(p.top)
	}
	p.slot(n).Store(record)
	return n, nil
}

func (p *process) unpin(n uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slot(n).Store(0)
	p.pins = append(p.pins, n)
}

func (p *process) slot(n uint32) *atomic.Uint32 { return at[atomic.Uint32](p.data, pinsAt+4*int(n)) }

// Count adds n to one of this process's counters.
func (l *Index) Count(i int, n int64) {
	_ = l.guard(func() error { l.own.h.counters[i].Add(n); return nil })
}

// Counts returns the sums of the counters of all processes, including ended ones, and the number of
// processes.
func (l *Index) Counts() (all [Counters]int64, processes int, err error) {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	err = l.guard(func() error {
		if err := l.refresh(); err != nil {
			return err
		}
		for i := range all {
			all[i] = l.h.counters[i].Load() + l.own.h.counters[i].Load()
			for _, p := range l.peers {
				all[i] += at[procHeader](p.data, 0).counters[i].Load()
			}
		}
		processes = 1 + len(l.peers)
		return nil
	})
	return all, processes, err
}

// Own returns this process's counters.
func (l *Index) Own() (own [Counters]int64) {
	_ = l.guard(func() error {
		for i := range own {
			own[i] = l.own.h.counters[i].Load()
		}
		return nil
	})
	return own
}
