package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/bytepool"
	"leat/internal/lockfile"
	"leat/internal/stagedir"
	"leat/objstore"
	"leat/stage/internal/index"
	"leat/stage/internal/store"
)

var (
	// ErrClosed is returned when the Pool, the Ref or the Reader was closed or released. It is an
	// os.ErrClosed too.
	ErrClosed error = closedError{}
	// ErrStopped is returned when a stopped process copies the object or holds a lock of the
	// directory.
	ErrStopped = index.ErrStopped
	// ErrNoSpace is returned when there is no space or inode for a file that was asked for, or for
	// the stage itself.
	ErrNoSpace = errors.New("no space")
)

// closedError is the type of ErrClosed.
type closedError struct{}

func (closedError) Error() string { return "stage is closed" }
func (closedError) Unwrap() error { return fs.ErrClosed }

// HolderError is an error of a wait for another process that holds a lock: PID is that process, 0
// if it is invisible, perhaps in another container, and Err wraps ErrStopped if it is stopped.
type HolderError = index.HolderError

// RemoveError is an error of removing Object, whose source and name it has without secrets: for the
// reason Err, its bytes can't be freed. It is not staged any more, and its space stays counted
// until it can be freed.
type RemoveError = index.RemoveError

// Pool copies objects into a directory and opens them for its callers. It may be used by many
// goroutines.
type Pool struct {
	o      Options
	dir    *lockfile.Dir
	index  *index.Index // nil: nothing is staged, see Direct; then dir and store are nil too
	store  *store.Store
	opened time.Time // objects checked later are fresh
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines
	ranges chan struct{}  // slots for the further requests of large objects
	retry  objstore.Retry // of the pool's requests

	buffers bytepool.Pool // of Ref.Bytes

	gate   sync.RWMutex // held for reading while index or store is in use
	closed bool         // under gate

	mu         sync.Mutex // guards the following fields and all items; never held during I/O
	items      map[index.Key]*item
	queue      queue
	workers    int // running workers
	waiting    []*item
	elsewhere  map[*item]struct{} // copied by other processes
	janitor    bool               // the janitor goroutine runs
	wake       chan struct{}      // wakes it
	pause      time.Duration      // its initial pause
	idle       chan struct{}      // closed when nothing is under way; nil if nobody waits for that
	busy       int                // items in progress
	stopping   bool
	diskFull   atomic.Int64             // time of the last warning about a full disk
	unreadable atomic.Int64             // of the last one about a copy that can't be read
	last       atomic.Pointer[Counters] // counters at Close; nil before
	warned     atomic.Bool
	spare      spareSpace
	seen       atomic.Int64                 // size of the object copied last
	direct     [index.Counters]atomic.Int64 // counters of a pool without an index
}

// Open opens the stage in a directory on a local disk and creates it if it is missing; its data is
// in the subdirectory "stage". An empty dir means that of LEAT_CACHE_DIR, or else one in the user's
// cache directory; see the guide. All processes that open the same directory share its objects.
// Open removes what dead processes left.
//
// Canceling ctx ends the wait for other processes that open the directory, and the check of the
// directory that follows the death of one. The next process then makes that check. After Open has
// returned, ctx has no effect. The error is ErrStopped if a stopped process holds a lock of the
// directory.
func Open(ctx context.Context, dir string, o *Options) (*Pool, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	root, err := stagedir.Open(dir)
	if err != nil {
		return nil, explainFull(dir, err)
	}
	p := newPool(ctx, opts)
	p.dir = root
	if err := p.openStorage(ctx); err != nil {
		return nil, errors.Join(explainFull(root.Path(), fmt.Errorf("opening %s: %w", root.Path(), err)),
			root.Close())
	}
	return p, nil
}

// explainFull adds what the disk lacks, and ErrNoSpace, to an error of a full disk.
func explainFull(dir string, err error) error {
	if !store.Full(err) {
		return err
	}
	var no unix.Errno
	errors.As(err, &no)
	return fmt.Errorf("%w: %s is left on the disk for a stage in %s: %w", ErrNoSpace,
		store.LackingAt(dir, err), dir, no)
}

// openStorage opens the store and the index, which call each other.
func (p *Pool) openStorage(ctx context.Context) (err error) {
	p.store, err = store.Open(p.dir, func() (uint64, error) { return p.index.NextPlace() })
	if err != nil {
		return err
	}
	p.index, err = index.Open(ctx, p.dir, p.store.Free, p.mayBeComplete, p.tidy)
	if err != nil {
		return errors.Join(err, p.store.Close())
	}
	return nil
}

// Dir returns the directory of the pool's objects.
func (p *Pool) Dir() string {
	if !p.stages() {
		return ""
	}
	return p.dir.Path()
}

// enter reports whether the pool is open and prevents Close from completing until leave.
func (p *Pool) enter() bool {
	// Only Close locks the gate for writing. Callbacks that run inside it, such as a Source or a
	// log handler, may use the pool: they must not wait for Close, which waits for them.
	if !p.gate.TryRLock() {
		return false
	}
	if p.closed {
		p.gate.RUnlock()
		return false
	}
	return true
}

func (p *Pool) leave() { p.gate.RUnlock() }

// Prefetch queues an object to be staged unless it is there already, and keeps it staged until the
// Ref is released. It never waits or fails: after a failed copy Ref.Open tries again and returns
// the error. After Close the Ref returns ErrClosed.
func (p *Pool) Prefetch(src Source, name string) *Ref { return p.prefetch(src, name, false, nil) }

// PrefetchFile is Prefetch for an object whose [Reader.Path] is needed. It stages a small object as
// a file of its own at once, instead of packing it with others and copying it out later. An object
// that is packed already is moved, if there is space for both copies and this pool does not use it.
func (p *Pool) PrefetchFile(src Source, name string) *Ref { return p.prefetch(src, name, true, nil) }

// PrefetchVersion is Prefetch, or PrefetchFile if file is set, for a version that the caller has
// read from the source, which saves a round trip: a staged object of that version is not compared
// with its source again, whatever Options.MaxAge is, and all parts of a large object are requested
// at once. If the source has another version by then, that one is staged: see [Reader.Version].
func (p *Pool) PrefetchVersion(src Source, name string, version objstore.Info, file bool) *Ref {
	return p.prefetch(src, name, file, &version)
}

func (p *Pool) prefetch(src Source, name string, file bool, known *objstore.Info) *Ref {
	id := src.ID(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return newRef(&item{p: p, src: src, name: name, id: id, state: idle}, false)
	}
	key := keyOf(id)
	it := p.items[key]
	if it == nil {
		it = &item{p: p, src: src, name: name, id: id, key: key}
		p.items[key] = it
	}
	it.refs++
	if it.state == idle || it.state == queued || it.state == failed {
		it.file = it.file || file
	}
	if it.state == idle || it.state == failed {
		it.src = src // the previous source failed or was never used
		if it.known = known; known != nil {
			it.size = max(known.Size, 0)
		}
		p.enqueue(it)
	}
	return newRef(it, true)
}

// ReadDirect reads an object from its source without staging it. The caller owns the bytes. After
// Close the error is ErrClosed.
func (p *Pool) ReadDirect(ctx context.Context, src Source, name string) ([]byte, SourceInfo, error) {
	if !p.enter() {
		return nil, SourceInfo{}, ErrClosed
	}
	defer p.leave()
	p.count(countReadThrough, 1)
	p.count(countReads, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	b, _, err := p.readAll(ctx, src, name, math.MaxInt64)
	if err != nil {
		if p.ctx.Err() != nil {
			return nil, SourceInfo{}, ErrClosed
		}
		p.count(countErrors, 1)
		return nil, SourceInfo{}, err
	}
	return b, describe(src, name), nil
}

// Recycle lets later calls of Ref.Bytes reuse a slice that it returned. Neither the slice, nor a
// part of it, nor what was appended to it may be used afterwards. A slice that is recycled again is
// ignored, unless it was reused meanwhile or two goroutines recycle it at once, which can't be
// detected. Recycle is optional: it avoids garbage, whose collection can take longer than the copy.
// The garbage collector frees what is not reused soon.
func (p *Pool) Recycle(data []byte) { p.buffers.Put(data) }

// Wait waits until no prefetch is in progress: each object is staged, has failed, or is left to be
// read on request. Canceling ctx ends the wait.
func (p *Pool) Wait(ctx context.Context) error {
	p.mu.Lock()
	if p.busy == 0 {
		p.mu.Unlock()
		return nil
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close cancels work in progress, waits for all goroutines, and ends the use of the directory.
// Afterwards Readers and Refs return ErrClosed. It may be called again.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.stopping {
		p.mu.Unlock()
		p.wg.Wait()
		return nil
	}
	p.stopping = true
	for _, it := range p.items {
		switch it.state {
		case queued, waitingForSpace, copiedElsewhere:
			p.setState(it, failed, ErrClosed)
		}
	}
	p.queue, p.waiting = queue{}, nil
	clear(p.elsewhere)
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.gate.Lock()
	defer p.gate.Unlock()
	p.closed = true
	last := p.ownCounters()
	p.last.Store(&last)
	if !p.stages() {
		return nil
	}
	var errs []error
	errs = append(errs, p.dropAll())
	return errors.Join(append(errs, p.index.Close(), p.store.Close(), p.dir.Close())...)
}

// dropAll removes this pool's staged objects that are not to be kept.
func (p *Pool) dropAll() error {
	var drop []*index.Entry
	p.mu.Lock()
	for _, it := range p.items { // release does nothing any more
		if it.entry != nil && (it.drop || p.o.Keep == Drop) {
			drop = append(drop, it.entry)
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, e := range drop {
		_, err := e.Drop()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *Pool) count(counter int, n int64) {
	if p.stages() {
		p.index.Count(counter, n)
		return
	}
	p.direct[counter].Add(n)
}

func (p *Pool) limits() index.Limits {
	return index.Limits{Bytes: p.o.MaxBytes, Files: p.o.MaxFiles}
}

// isFresh reports whether an object last checked at that time needs no comparison with its source.
func (p *Pool) isFresh(checked time.Time) bool {
	if p.o.MaxAge >= 0 && checked.After(time.Now()) {
		return false // the clock was ahead, and the object may have been replaced since
	}
	return p.o.MaxAge < 0 || !checked.Before(p.opened.Add(-p.o.MaxAge))
}

// countingRetry returns Options.Retry as a policy that also counts the retries.
func (p *Pool) countingRetry() objstore.Retry {
	r := p.o.Retry
	onRetry := r.OnRetry
	r.OnRetry = func(err error) {
		p.count(countRetries, 1)
		if onRetry != nil {
			onRetry(err)
		}
	}
	return r
}
