//go:build unix

package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/backoff"
	"leat/internal/fault"
	"leat/internal/lockfile"
	"leat/internal/procfile"
	"leat/stage/internal/store"
)

var (
	// ErrBroken is returned when the index can't be read or written any more, because the disk
	// failed or the file was truncated.
	ErrBroken = errors.New("the index of the directory is unusable")
	// ErrStopped is returned when a stopped process, as by SIGSTOP, holds what this one waits for.
	ErrStopped = errors.New("waiting for a stopped process")
	// ErrBusy is returned when another process holds a lock for too long.
	ErrBusy = errors.New("the directory is blocked")
	// ErrFull is returned when the index, this process's pins or its copies are exhausted.
	ErrFull = errors.New("the index is full")
)

// Freer frees the bytes at a place, which take charge bytes on the disk. It may be called again for
// a place that was freed.
type Freer func(p Place, charge int64) error

// Index is one process's access to the index of a directory. It may be used by many goroutines.
type Index struct {
	dir, procs *lockfile.Dir
	free       Freer
	fd         int
	head       []byte // header and buckets
	h          *header
	chunks     [maxChunks]atomic.Pointer[[chunkCount]record]
	mapMu      sync.Mutex // guards mapping and growing
	locks      *lockfile.Ranges
	bucketMu   [256]sync.Mutex // excludes goroutines, which Ranges does not
	keysMu     sync.Mutex
	keys       map[int64]struct{} // lock numbers of the keys locked by this process
	own        *process
	peersMu    sync.Mutex
	peers      []*peer
	joins      atomic.Uint64 // value of the header's joins that peers reflects; 0: outdated
	evictMu    sync.Mutex
	candidates []candidate
	broken     atomic.Bool
	closed     bool
}

// Lock numbers other than those of buckets and keys.
const (
	lockGate  = 1 << 60
	lockUsers = 1<<60 + 1
	lockGrow  = 1<<60 + 2
	lockKeys  = 1 << 62
)

// Open opens the index in dir, a directory of leat's own, which must stay open until Close. If a
// process died, the machine rebooted or a record is damaged, the next Open without other processes
// checks all records: keep reports whether an object is intact, free frees bytes, and tidy is
// called at the end with all remaining objects, to remove what the index does not reference. ctx
// ends the wait for other processes and the check, which the next process then makes.
func Open(ctx context.Context, d *lockfile.Dir, free Freer, keep func(Object) bool,
	tidy func([]Object) error) (_ *Index, err error) {
	l := &Index{dir: d, free: free, fd: -1, keys: map[int64]struct{}{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.release())
		}
	}()
	if l.procs, err = d.MakeSub("procs"); err != nil {
		return nil, err
	}
	if l.locks, err = d.OpenRanges("locks"); err != nil {
		return nil, err
	}
	if err := l.wait(ctx, lockfile.Write, lockGate); err != nil {
		return nil, err
	}
	fault.Point("index.gate")
	defer func() {
		// After an error, release unlocks the gate together with all other locks: the next process
		// must not enter while this one still holds them.
		if err == nil {
			_, err = l.locks.Try(lockfile.Free, lockGate, 1)
		}
	}()
	alone, err := l.locks.Try(lockfile.Write, lockUsers, 1)
	if err != nil {
		return nil, err
	}
	if !alone {
		if err := l.wait(ctx, lockfile.Read, lockUsers); err != nil {
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
		if err := l.guard(func() error { return l.rebuild(ctx, keep, tidy) }); err != nil {
			return nil, err
		}
	}
	l.own, err = l.join()
	for store.Full(err) && (l.takeSpare() || l.evictForJoin()) {
		l.own, err = l.join()
	}
	if err != nil {
		return nil, err
	}
	l.fillSpares()
	if alone {
		if _, err := l.locks.Try(lockfile.Read, lockUsers, 1); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// wait takes a lock that others hold for a moment, or for seconds while they open and check a
// directory.
func (l *Index) wait(ctx context.Context, mode lockfile.Mode, number int64) error {
	limit := lockTimeout
	if number == lockGate {
		limit = gateTimeout
	}
	waited := time.Duration(0) // sum of the pauses: while the machine is suspended, no process can unlock
	checked := time.Duration(0)
	for pause := shortPause(); ; {
		if ok, err := l.locks.Try(mode, number, 1); ok || err != nil {
			return err
		}
		if waited-checked > lockTimeout || waited > limit {
			checked = waited
			if err := l.lockError(number, waited, waited > limit); err != nil {
				return err
			}
		}
		d, err := pause.Wait(ctx)
		if err != nil {
			return err
		}
		waited += d
	}
}

// HolderError is an error of a wait for another process that holds a lock.
type HolderError struct {
	PID int // 0: invisible, perhaps in another container
	Err error
}

func (e *HolderError) Error() string { return e.Err.Error() }
func (e *HolderError) Unwrap() error { return e.Err }

// shortPause is the pause of a wait for a lock that others hold for microseconds.
func shortPause() *backoff.Backoff {
	return &backoff.Backoff{Next: 20 * time.Microsecond, Max: 5 * time.Millisecond}
}

// lockTimeout limits the wait for a lock that is held for microseconds unless its holder is
// stopped; gateTimeout that for a process that checks all records, which takes a second for ten
// million.
var lockTimeout, gateTimeout = 5 * time.Second, time.Minute

// lockError returns the error of a wait for a lock: nil while its holder runs, until that takes too
// long.
func (l *Index) lockError(number int64, waited time.Duration, tooLong bool) error {
	pid, stopped := l.lockHolder(number)
	waited = waited.Round(time.Millisecond)
	switch {
	case stopped:
		return &HolderError{pid, fmt.Errorf("%w: process %d has held a lock of %s for %v", ErrStopped, pid,
			l.dir.Path(), waited)}
	case !tooLong:
		return nil
	case pid != 0:
		return &HolderError{pid, fmt.Errorf("%w: process %d has held a lock of %s for %v", ErrBusy, pid,
			l.dir.Path(), waited)}
	}
	return &HolderError{0, fmt.Errorf("%w: an invisible process, perhaps in another container, has held a lock of %s for %v",
		ErrBusy, l.dir.Path(), waited)}
}

// openIndex opens the index and creates it if it is missing. It reformats an index that is not of
// this machine and version; the check of Open then removes everything in the directory.
func (l *Index) openIndex(alone bool) error {
	fd, err := unix.Openat(l.dir.Fd(), "index", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("opening %s: %w", l.dir.FilePath("index"), err)
	}
	l.fd = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s is not a regular file of this user (%w)", l.dir.FilePath("index"),
			lockfile.ErrForeign)
	case st.Size < recordsAt && !alone:
		return fmt.Errorf("%w: %s was truncated while processes use it", ErrBroken, l.dir.FilePath("index"))
	case st.Size < recordsAt:
		if err := l.format(); err != nil {
			return err
		}
	}
	if l.head, err = unix.Mmap(fd, 0, recordsAt, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mapping %s: %w", l.dir.FilePath("index"), err)
	}
	l.h = at[header](l.head, 0)
	return l.guard(func() error { return l.prepareHeader(alone, st.Size) })
}

// newEpoch returns a number for this boot of the machine. It is random: after a power loss, a
// counter could repeat.
func newEpoch(last uint32) uint32 {
	for {
		if n := rand.Uint32(); n != 0 && n != last {
			return n
		}
	}
}

func (l *Index) prepareHeader(alone bool, size int64) error {
	boot, err := procfile.BootID()
	if err != nil {
		return err
	}
	capacity := l.h.capacity.Load()
	ours := string(l.h.magic[:]) == magic && l.h.record == recordSize && l.h.buckets == buckets &&
		capacity%chunkCount == 0 && capacity <= maxChunks*chunkCount
	switch {
	case !alone && !ours:
		return fmt.Errorf("%w: %s is not an index of this version of leat, and processes use it", ErrBroken,
			l.dir.FilePath("index"))
	case !alone:
		return nil
	case !ours || recordsAt+int64(capacity)*recordSize > size:
		if err := l.format(); err != nil {
			return err
		}
		*l.h = header{record: recordSize, buckets: buckets, boot: boot}
		l.h.epoch.Store(newEpoch(l.h.epoch.Load()))
		l.h.next.Store(1) // record 0 means none
		// Begin at a random number: a path from an earlier stage in this directory must not lead to
		// another object.
		l.h.place.Store(rand.Uint64N(1 << 62))
		l.h.unclean.Store(1)
		copy(l.h.magic[:], magic)
	case l.h.boot != boot:
		// Data that was not flushed before a power loss is missing or zero: everything is verified
		// before it is served again. The boot id comes last, so that after a kill before it the
		// next process repeats this.
		l.h.unclean.Store(1)
		l.h.epoch.Store(newEpoch(l.h.epoch.Load()))
		l.h.place.Add(1 << 32) // this number may be outdated too
		fault.Point("index.booting")
		l.h.boot = boot
	}
	if next := l.h.next.Load(); next == 0 || next > max(l.h.capacity.Load(),
		1) || l.h.bytes.Load() < 0 || l.h.files.Load() < 0 {
		l.h.unclean.Store(1) // no process of leat leaves such a header
	}
	return nil
}

// format empties the index and allocates its first part.
func (l *Index) format() error {
	fault.Point("index.formatting")
	if err := unix.Ftruncate(l.fd, 0); err != nil {
		return fmt.Errorf("emptying %s: %w", l.dir.FilePath("index"), err)
	}
	if err := allocate(l.fd, 0, recordsAt); err != nil {
		return fmt.Errorf("creating %s: %w", l.dir.FilePath("index"), err)
	}
	return nil
}

// Close ends this process's use of the directory and releases its pins and reservations. Entries
// must not be used any more.
func (l *Index) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	return l.release()
}

func (l *Index) release() error {
	var errs []error
	if l.own != nil {
		errs = append(errs, l.leave())
		l.fillSpares()
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

// Taken returns the space and number of all objects, including copies in progress.
func (l *Index) Taken() (bytes, files int64) {
	_ = l.guard(func() error {
		bytes, files = l.h.bytes.Load(), l.h.files.Load()
		return nil
	})
	return bytes, files
}

// NextPlace returns a number for a segment or file that none ever had.
func (l *Index) NextPlace() (n uint64, err error) {
	err = l.guard(func() error { n = l.h.place.Add(1); return nil })
	return n, err
}

// Broken reports whether the index has failed.
func (l *Index) Broken() bool { return l.broken.Load() }

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
