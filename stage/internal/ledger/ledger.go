//go:build unix

package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lease"
	"leat/internal/procfile"
	"leat/stage/internal/shelf"
)

var (
	// ErrBroken tells that the index can't be read or written any more: the disk failed, or someone cut the file off.
	ErrBroken = errors.New("stage: the index in the stage's directory can't be used any more")
	// ErrBusy tells that another process holds a lock and does not go on.
	ErrBusy = errors.New("stage: the directory is blocked")
	// ErrFull tells that the index, the process's pins or its copies have no place left.
	ErrFull = errors.New("stage: no place left in the index")
)

// Freer frees the bytes at a place, of charge bytes on the disk. It may be called again for a place that was freed.
type Freer func(p Place, charge int64) error

// Ledger is one process's part in the books of a directory. It may be used by many goroutines.
type Ledger struct {
	dir, procs *lease.Dir
	free       Freer
	fd         int
	head       []byte // header and buckets
	h          *header
	chunks     [maxChunks]atomic.Pointer[[chunkCount]record]
	mapMu      sync.Mutex // mapping chunks, growing
	locks      *lease.Ranges
	bucketMu   [256]sync.Mutex // what Ranges does not do: keep goroutines apart
	keysMu     sync.Mutex
	keys       map[int64]struct{} // the numbers of those that this process has locked
	own        *process
	peersMu    sync.Mutex
	peers      []*peer
	joins      atomic.Uint64 // of which peers is the list; 0: it must be looked up anew
	evictMu    sync.Mutex
	olds       []candidate
	broken     atomic.Bool
	closed     bool
}

// Numbers that are locked, beside those of buckets and keys.
const (
	lockGate  = 1 << 60
	lockUsers = 1<<60 + 1
	lockGrow  = 1<<60 + 2
	lockKeys  = 1 << 62
)

// Open opens the books in dir, which must be leat's own folder; d stays the caller's and must stay open until Close. keep decides, when the books are checked
// because a process died, whether an object is whole; free frees bytes; tidy is called at the end of such a check with all that is there, while no
// other process uses the directory, to remove what the books do not know.
func Open(d *lease.Dir, free Freer, keep func(Object) bool, tidy func([]Object) error) (_ *Ledger, err error) {
	l := &Ledger{dir: d, free: free, fd: -1, keys: map[int64]struct{}{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.release())
		}
	}()
	if l.procs, err = d.Sub("procs"); err != nil {
		return nil, err
	}
	if l.locks, err = d.OpenRanges("locks"); err != nil {
		return nil, err
	}
	if err := l.wait(lease.Write, lockGate); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil { // else it ends with all other locks: the next one shall not find the gate open and someone inside who gave up
			_, err = l.locks.Try(lease.Free, lockGate, 1)
		}
	}()
	alone, err := l.locks.Try(lease.Write, lockUsers, 1)
	if err != nil {
		return nil, err
	}
	if !alone {
		if err := l.wait(lease.Read, lockUsers); err != nil {
			return nil, err
		}
	}
	if err := l.openIndex(alone); err != nil {
		return nil, err
	}
	if err := l.sweepDead(); err != nil {
		return nil, err
	}
	if alone && l.h.unclean.Load() != 0 {
		if err := l.guard(func() error { return l.rebuild(keep, tidy) }); err != nil {
			return nil, err
		}
	}
	if l.own, err = l.join(); shelf.Full(err) && l.makeRoom() {
		l.own, err = l.join()
	}
	if err != nil {
		return nil, err
	}
	if alone {
		if _, err := l.locks.Try(lease.Read, lockUsers, 1); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// wait takes a lock that is held for moments only, or, while a directory is opened and checked, for seconds.
func (l *Ledger) wait(mode lease.Mode, number int64) error {
	patience := lockPatience
	if number == lockGate {
		patience = gatePatience
	}
	waited := time.Duration(0) // the pauses: a machine that stood still has given nobody the time to let go
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if ok, err := l.locks.Try(mode, number, 1); ok || err != nil {
			return err
		}
		if waited > patience {
			return fmt.Errorf("%w: another process that uses %s has held a lock for %v: is it stopped? Let it go on, or end it", ErrBusy, l.dir.Path(), patience)
		}
		time.Sleep(pause)
		waited += pause
	}
}

// How long a process is waited for that was stopped (by Slurm or ^Z) in the few microseconds in which it holds a lock, or while it checks all records: a second
// for ten million.
var lockPatience, gatePatience = 5 * time.Second, time.Minute

// openIndex opens the index, makes it where there is none, and makes it anew where it is not one of this machine's; then what lies in the
// directory is of no use, and the check of Open removes it.
func (l *Ledger) openIndex(alone bool) error {
	fd, err := unix.Openat(l.dir.Fd(), "index", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("stage: opening %s: %w", l.dir.File("index"), err)
	}
	l.fd = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("stage: %s is no regular file of this user: name another directory (%w)", l.dir.File("index"), lease.ErrForeign)
	case st.Size < recordsAt && !alone:
		return fmt.Errorf("%w: %s was cut off while processes use it", ErrBroken, l.dir.File("index"))
	case st.Size < recordsAt:
		if err := l.format(); err != nil {
			return err
		}
	}
	if l.head, err = unix.Mmap(fd, 0, recordsAt, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("stage: mapping %s: %w", l.dir.File("index"), err)
	}
	l.h = at[header](l.head, 0)
	return l.guard(func() error { return l.checkHeader(alone, st.Size) })
}

// newEpoch is a number for this start of the machine. It is not counted: a header that was not flushed would count to the same number again.
func newEpoch(last uint32) uint32 {
	for {
		if n := rand.Uint32(); n != 0 && n != last {
			return n
		}
	}
}

func (l *Ledger) checkHeader(alone bool, size int64) error {
	boot, err := procfile.BootID()
	if err != nil {
		return err
	}
	capacity := l.h.capacity.Load()
	ours := string(l.h.magic[:]) == magic && l.h.record == recordSize && l.h.buckets == buckets && capacity%chunkCount == 0 && capacity <= maxChunks*chunkCount
	switch {
	case !alone && !ours:
		return fmt.Errorf("%w: %s is not an index of this version of leat, and processes use it", ErrBroken, l.dir.File("index"))
	case !alone:
		return nil
	case !ours || recordsAt+int64(capacity)*recordSize > size:
		if err := l.format(); err != nil {
			return err
		}
		*l.h = header{record: recordSize, buckets: buckets, boot: boot}
		l.h.epoch.Store(newEpoch(l.h.epoch.Load()))
		l.h.next.Store(1) // record 0 is none
		l.h.unclean.Store(1)
		copy(l.h.magic[:], magic)
	case l.h.boot != boot:
		// What was not flushed before a loss of power is missing or zeros: everything is verified before it is served again.
		// The boot comes last: after a kill before it, the next one does the same again.
		l.h.unclean.Store(1)
		l.h.epoch.Store(newEpoch(l.h.epoch.Load()))
		fault.Point("ledger.booting")
		l.h.boot = boot
	}
	if next := l.h.next.Load(); next == 0 || next > max(l.h.capacity.Load(), 1) || l.h.bytes.Load() < 0 || l.h.files.Load() < 0 {
		l.h.unclean.Store(1) // no process of this program left it so
	}
	return nil
}

// format makes the index an empty one whose first part is allocated.
func (l *Ledger) format() error {
	fault.Point("ledger.formatting")
	if err := unix.Ftruncate(l.fd, 0); err != nil {
		return fmt.Errorf("stage: emptying %s: %w", l.dir.File("index"), err)
	}
	if err := allocate(l.fd, 0, recordsAt); err != nil {
		return fmt.Errorf("stage: making %s: %w", l.dir.File("index"), err)
	}
	return nil
}

// Close ends this process's part: its pins, and room that is still reserved, are given back. Entries must not be used any more.
func (l *Ledger) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	return l.release()
}

func (l *Ledger) release() error {
	var errs []error
	if l.own != nil {
		errs = append(errs, l.leave())
	}
	l.dropPeers()
	for i := range l.chunks {
		if c := l.chunks[i].Swap(nil); c != nil {
			errs = append(errs, unmap(c))
		}
	}
	if l.head != nil {
		errs = append(errs, unix.Munmap(l.head))
		l.head, l.h = nil, nil
	}
	if l.fd >= 0 {
		errs = append(errs, unix.Close(l.fd))
		l.fd = -1
	}
	if l.locks != nil {
		errs = append(errs, l.locks.Close())
	}
	if l.procs != nil {
		errs = append(errs, l.procs.Close())
	}
	return errors.Join(errs...)
}

// Taken returns what all objects take, copies under way included.
func (l *Ledger) Taken() (bytes, files int64) {
	_ = l.guard(func() error {
		bytes, files = l.h.bytes.Load(), l.h.files.Load()
		return nil
	})
	return bytes, files
}

// NextPlace is a number for a segment or a file that no other has or had.
func (l *Ledger) NextPlace() (n uint64, err error) {
	err = l.guard(func() error { n = l.h.place.Add(1); return nil })
	return n, err
}

// Broken reports whether the index has failed.
func (l *Ledger) Broken() bool { return l.broken.Load() }

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
