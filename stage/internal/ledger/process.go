//go:build unix

package ledger

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
	"leat/internal/lease"
	"leat/stage/internal/shelf"
)

// process is this process's own file, which it holds while it uses the directory.
type process struct {
	name   string
	fd     int // stays open with its lock: the mapping outlives neither
	hold   *lease.Hold
	data   []byte
	h      *procHeader
	mu     sync.Mutex
	pinned uint32   // pins that are allocated on the disk
	pins   []uint32 // that are free
	top    uint32   // pins from here were never used
	copies []uint32 // slots that are free
}

// join makes this process's file.
func (l *Ledger) join() (*process, error) {
	p := &process{name: rand.Text()}
	h, err := l.procs.Publish(p.name, 0o600, func(fd int) error {
		if err := unix.Ftruncate(fd, procSize); err != nil {
			return err
		}
		return allocate(fd, 0, pinsAt+pinsStep)
	})
	if err != nil {
		if shelf.Full(err) {
			return nil, fmt.Errorf("stage: joining %s: no space is left on its disk: free some, or name another directory: %w", l.dir.Path(), err)
		}
		return nil, fmt.Errorf("stage: joining %s: %w", l.dir.Path(), err)
	}
	p.hold, p.fd = h, h.Fd()
	if p.data, err = unix.Mmap(p.fd, 0, procSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("stage: mapping %s: %w", l.procs.File(p.name), err), leaveHold(h))
	}
	p.h, p.pinned = at[procHeader](p.data, 0), pinsStep/4
	for i := MaxCopies - 1; i >= 0; i-- {
		p.copies = append(p.copies, uint32(i))
	}
	err = l.guard(func() error {
		p.h.pid, p.h.started = int64(os.Getpid()), time.Now().UnixNano()
		copy(p.h.magic[:], procMagic)
		fault.Point("ledger.joining")
		l.h.joins.Add(1) // before the first pin: who evicts looks for new processes after it has marked a record
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(p.data), leaveHold(h))
	}
	return p, nil
}

func leaveHold(h *lease.Hold) error {
	_, err := h.Leave(nil)
	return err
}

// leave gives back what this process still has, and removes its file.
func (l *Ledger) leave() error {
	p := l.own
	l.own = nil
	_, err := p.hold.Leave(func() error {
		err := l.giveBack(p.data)
		if err != nil { // something stays counted
			_ = l.guard(func() error { l.h.unclean.Store(1); return nil })
		}
		return err
	})
	_ = l.guard(func() error { l.h.joins.Add(1); return nil })
	return errors.Join(err, unix.Munmap(p.data))
}

// giveBack frees what a process that is gone, or goes, was copying, and adds up its counters. Its file is held alone. What can't be freed stays
// counted.
func (l *Ledger) giveBack(data []byte) error {
	return l.guard(func() (err error) {
		h := at[procHeader](data, 0)
		if string(h.magic[:]) != procMagic {
			return nil // it died before it had anything, or the file is not one of this version
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
			// First the slot: a kill between the two leaves too much counted, not too little.
			c.charge.Store(0)
			fault.Point("ledger.giving back")
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

// sweepDead removes the files of processes that died, after giving back what they had.
func (l *Ledger) sweepDead() error {
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

// sweep removes the file of a process if it died.
func (l *Ledger) sweep(name string) error {
	removed, err := l.procs.SweepWith(name, func(fd int) error {
		if strings.HasPrefix(name, ".") { // one that was being made
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
		// What can't be freed stays counted, as the directory is unclean, and is found when the books are checked. Nobody has to wait for that.
		if err := l.giveBack(data); errors.Is(err, ErrBroken) {
			return errors.Join(err, unix.Munmap(data))
		}
		return unix.Munmap(data)
	})
	if removed {
		fault.Point("ledger.swept")
		_ = l.guard(func() error { l.h.joins.Add(1); return nil })
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mapDead maps the file of a process that died, which is held for the caller, for reading and writing: a sweep's own descriptor is for reading.
func (l *Ledger) mapDead(name string, held *unix.Stat_t) ([]byte, error) {
	fd, err := unix.Openat(l.procs.Fd(), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("stage: opening %s: %w", l.procs.File(name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Dev != held.Dev || st.Ino != held.Ino {
		return nil, fmt.Errorf("stage: %s was replaced by something else: remove it (%w)", l.procs.File(name), lease.ErrForeign)
	}
	data, err := unix.Mmap(fd, 0, procSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("stage: mapping %s: %w", l.procs.File(name), err)
	}
	return data, nil
}

// peer is another process's file, for its pins.
type peer struct {
	name string
	data []byte
	seen bool
}

// pinsOf are the pins of a process's file that may be set.
func pinsOf(data []byte) []atomic.Uint32 {
	n := min(at[procHeader](data, 0).pins.Load(), maxPins)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(&data[pinsAt])), n)
}

// refresh brings the list of peers up to date. peersMu is held.
func (l *Ledger) refresh() error {
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

func (l *Ledger) openPeer(name string) (*peer, error) {
	fd, err := unix.Openat(l.procs.Fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if isGone(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil // or no file at all
	}
	if err != nil {
		return nil, fmt.Errorf("stage: opening %s: %w", l.procs.File(name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != procSize || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, err
	}
	data, err := unix.Mmap(fd, 0, procSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("stage: mapping %s: %w", l.procs.File(name), err)
	}
	return &peer{name: name, data: data, seen: true}, nil
}

func (l *Ledger) dropPeers() {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	for _, p := range l.peers {
		_ = unix.Munmap(p.data)
	}
	l.peers = nil
}

// pinnedBy returns which of the records, all of which are marked as being evicted, some live process uses.
func (l *Ledger) pinnedBy(records map[uint32]bool) error {
	l.peersMu.Lock()
	defer l.peersMu.Unlock()
	if err := l.refresh(); err != nil {
		return err
	}
	if l.own != nil {
		mark(records, l.own.data)
	}
	dead := false
	for _, p := range l.peers {
		if !mark(records, p.data) {
			continue
		}
		// Its pins count only while it lives. Whoever removed its file may have died before it could tell.
		if err := l.sweep(p.name); err != nil {
			return err
		}
		dead = dead || !l.procs.Has(p.name)
	}
	if !dead {
		return nil
	}
	l.joins.Store(0) // look anew in any case
	for i := range records {
		records[i] = false
	}
	if err := l.refresh(); err != nil {
		return err
	}
	if l.own != nil {
		mark(records, l.own.data)
	}
	for _, p := range l.peers {
		mark(records, p.data)
	}
	return nil
}

// inUse returns which of the first n records some process seems to use. It may have died, and others may be used a moment later: pinnedBy tells.
func (l *Ledger) inUse(n uint32) (bits, error) {
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

// mark sets those of the records that a file pins, and reports whether there are any.
func mark(records map[uint32]bool, data []byte) (any bool) {
	pins := pinsOf(data)
	for i := range pins {
		if v := pins[i].Load(); v != 0 {
			if _, ok := records[v]; ok {
				records[v], any = true, true
			}
		}
	}
	return any
}

// pin sets a pin, and returns its number.
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
				return 0, fmt.Errorf("%w: %d objects are in use by this process", ErrFull, maxPins)
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

// Count adds to one of this process's counters.
func (l *Ledger) Count(i int, n int64) {
	_ = l.guard(func() error { l.own.h.counters[i].Add(n); return nil })
}

// Counts adds up the counters of all processes, gone ones included.
func (l *Ledger) Counts() (all [Counters]int64, processes int, err error) {
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

// Own are this process's counters.
func (l *Ledger) Own() (own [Counters]int64) {
	_ = l.guard(func() error {
		for i := range own {
			own[i] = l.own.h.counters[i].Load()
		}
		return nil
	})
	return own
}
