package stage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"leat/internal/lease"
	"leat/objstore"
	"leat/stage/internal/ledger"
	"leat/stage/internal/shelf"
)

var (
	// ErrClosed tells that the pool, the Lazy or the Reader was closed or released.
	ErrClosed = errors.New("stage: closed")
	// ErrStopped tells that an object is being copied by another process, which is stopped.
	ErrStopped = errors.New("stage: waiting for a stopped process")
	// ErrNoRoom tells that a file was asked for that there is no room for.
	ErrNoRoom = errors.New("stage: no room")
)

// Pool copies objects into a directory and lends them out. It may be used by many goroutines.
type Pool struct {
	o      Options
	dir    *lease.Dir
	books  *ledger.Ledger
	shelf  *shelf.Shelf
	opened time.Time // what was checked later is new enough
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines
	ranges chan struct{}  // places for further requests of large objects

	gate   sync.RWMutex // held for reading while the books or the shelf are used
	closed bool         // under gate

	mu       sync.Mutex // guards what follows and all of item's; never held while anything is read or written
	items    map[ledger.Key]*item
	queue    queue
	workers  int // that run
	parked   []*item
	away     map[*item]struct{} // copied by other processes
	helper   bool               // the goroutine that looks after parked and away runs
	poke     chan struct{}      // wakes it
	pause    time.Duration      // with which it begins
	idle     chan struct{}      // closed when nothing is under way; nil if nobody waits for that
	busy     int                // items that are queued, running, parked or away
	stopping bool
	diskFull atomic.Int64             // when that was last warned of
	last     atomic.Pointer[Counters] // when it was closed; nil before
	warned   atomic.Bool
	seen     atomic.Int64 // bytes of the object that was copied last
}

// Open opens the stage in a directory on a local disk, which is made where it is missing; what it holds lies in its folder called "stage". With "" it is that of LEAT_CACHE_DIR, else one in
// the user's cache directory; see the guide. Every process that opens the same directory shares what is in it. What dead processes left is removed.
func Open(dir string, o *Options) (*Pool, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	root, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	p := &Pool{o: opts, dir: root, opened: time.Now(), items: map[ledger.Key]*item{}, away: map[*item]struct{}{}, poke: make(chan struct{}, 1),
		ranges: make(chan struct{}, max(16, opts.Ranges))}
	if err := p.openBooks(); err != nil {
		return nil, errors.Join(fmt.Errorf("stage: opening %s: %w", root.Path(), err), root.Close())
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// openBooks opens the shelf and the ledger, which need each other.
func (p *Pool) openBooks() (err error) {
	p.shelf, err = shelf.Open(p.dir, func() (uint64, error) { return p.books.NextPlace() })
	if err != nil {
		return err
	}
	p.books, err = ledger.Open(p.dir, p.shelf.Free, p.whole, p.tidy)
	if err != nil {
		return errors.Join(err, p.shelf.Close())
	}
	return nil
}

// Dir is where the pool's objects are.
func (p *Pool) Dir() string { return p.dir.Path() }

// enter keeps the pool from being closed; without it there is no leave.
func (p *Pool) enter() bool {
	// Close alone takes it for writing. Foreign code that runs under it, as a source or Warn, may use the pool: it must not wait for Close, which waits for it.
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

// Prefetch has an object copied soon, if it is not there, and keeps it there until the Lazy is released. It neither waits nor fails: what goes wrong is told by the
// Lazy when it is opened, after another attempt. After Close the Lazy answers ErrClosed.
func (p *Pool) Prefetch(src Source, name string) *Lazy { return p.prefetch(src, name, false) }

// PrefetchFile is Prefetch for an object whose [Reader.Path] is wanted: a small one is made a file of its own at once, rather than lie with others in one and be copied out of
// it, which takes its room twice. One that lies with others already is moved, if there is room for both meanwhile, and this pool does not use it.
func (p *Pool) PrefetchFile(src Source, name string) *Lazy { return p.prefetch(src, name, true) }

func (p *Pool) prefetch(src Source, name string, file bool) *Lazy {
	id := src.ID(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return newLazy(&item{p: p, src: src, name: name, id: id, state: idle}, false)
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
		it.src = src // the last one failed, or was never asked
		p.enqueue(it)
	}
	return newLazy(it, true)
}

// Get reads an object from its source, without the stage.
func (p *Pool) Get(ctx context.Context, src Source, name string) ([]byte, SourceInfo, error) {
	if !p.enter() {
		return nil, SourceInfo{}, ErrClosed
	}
	defer p.leave()
	p.count(countThrough, 1)
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

// Wait waits until nothing that was prefetched is under way any more: all is there, has failed, or is left to be read when it is asked for.
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

// Close cancels what is under way, and ends the use of the directory. Readers and Lazies answer ErrClosed after it. Nothing is left running.
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
		case queued, parked, away:
			p.setState(it, failed, ErrClosed)
		}
	}
	p.queue, p.parked = queue{}, nil
	clear(p.away)
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.gate.Lock()
	defer p.gate.Unlock()
	p.closed = true
	last := countersOf(p.books.Own())
	p.last.Store(&last)
	var errs []error
	errs = append(errs, p.dropAll())
	return errors.Join(append(errs, p.books.Close(), p.shelf.Close(), p.dir.Close())...)
}

// dropAll removes of what this pool still has staged all that is not to be kept.
func (p *Pool) dropAll() error {
	var drop []*ledger.Entry
	p.mu.Lock()
	for _, it := range p.items { // no more are released: see release
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

func (p *Pool) count(counter int, n int64) { p.books.Count(counter, n) }

func (p *Pool) limits() ledger.Limits {
	return ledger.Limits{Bytes: p.o.MaxBytes, Files: p.o.MaxFiles}
}

// fresh tells whether an object needs not be compared with its source.
func (p *Pool) fresh(checked time.Time) bool {
	if p.o.MaxAge >= 0 && checked.After(time.Now().Add(time.Minute)) {
		return false // the clock was ahead once
	}
	return p.o.MaxAge < 0 || !checked.Before(p.opened.Add(-p.o.MaxAge))
}

// retry is how the pool's requests are made; they are counted.
func (p *Pool) retry() objstore.Retry {
	r := p.o.Retry
	told := r.OnRetry
	r.OnRetry = func(err error) {
		p.count(countRetries, 1)
		if told != nil {
			told(err)
		}
	}
	return r
}
