package stage

import (
	"context"
	"crypto/md5"
	"runtime"
	"sync"

	"leat/objstore"
	"leat/stage/internal/store"
)

// unfinished is a copy of a large object in progress, whose received bytes can be read.
type unfinished struct {
	version   objstore.Info
	partBytes int64

	reading sync.RWMutex // held for reading while out is in use, for writing to end its use
	out     *store.Writer

	mu      sync.Mutex // guards the following fields
	parts   []int64    // bytes received of each part, from its beginning
	changed chan struct{}
	ended   bool
}

// offer lets callers read the received bytes of w. It returns nil if they can't be used yet: they
// may belong to several versions, or are checked only when all have arrived.
func (w *download) offer() *unfinished {
	if w.it.staged != nil || !w.info.Versioned() || len(w.info.CRC32C) == 4 || len(w.info.MD5) == md5.Size {
		return nil
	}
	u := &unfinished{version: w.info, partBytes: w.p.o.RangeBytes, out: w.out}
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.it.unfinished = u
	w.it.wake()
	return u
}

// withdraw ends all reading of u. The Writer is then no longer in use.
func (w *download) withdraw(u *unfinished) {
	if u == nil {
		return
	}
	w.p.mu.Lock()
	w.it.unfinished = nil
	w.p.mu.Unlock()
	u.mu.Lock()
	u.ended = true
	u.wake()
	u.mu.Unlock()
	u.reading.Lock()
	u.out = nil
	u.reading.Unlock()
}

// wake wakes all waiters. mu is held.
func (u *unfinished) wake() {
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// received records that the part that begins at offset at has n bytes. u may be nil.
func (u *unfinished) received(at, n int64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	i := int(at / u.partBytes)
	for len(u.parts) <= i {
		u.parts = append(u.parts, 0)
	}
	u.parts[i] = n
	u.wake()
}

// has reports whether a range that lies within the object has arrived. mu is held.
func (u *unfinished) has(at, bytes int64) bool {
	for end := at + bytes; at < end; {
		i := at / u.partBytes
		to := min(end, (i+1)*u.partBytes)
		if i >= int64(len(u.parts)) || u.parts[i] < to-i*u.partBytes {
			return false
		}
		at = to
	}
	return true
}

// wait waits until a range that lies within the object has arrived. It returns false if the copy
// ends first.
func (u *unfinished) wait(ctx context.Context, at, bytes int64) (bool, error) {
	for {
		u.mu.Lock()
		if u.ended || u.has(at, bytes) {
			defer u.mu.Unlock()
			return !u.ended, nil
		}
		if u.changed == nil {
			u.changed = make(chan struct{})
		}
		changed := u.changed
		u.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// readAt reads a range that has arrived. It returns false if the copy has ended.
func (u *unfinished) readAt(b []byte, at int64) bool {
	u.reading.RLock()
	defer u.reading.RUnlock()
	if u.out == nil {
		return false
	}
	n, err := u.out.ReadAt(b, at)
	return n == len(b) && err == nil
}

// WaitRange waits until bytes of the given version have arrived that [Ref.ReadUnfinished] can read,
// while this pool copies a large object. It returns false if there is no such copy: the object is
// staged, has another version or no version, is small, or is copied by another process. It also
// returns false if the store reports a checksum, as no byte may be used before all are checked.
// [Ref.Open] then waits for the whole object. If the copy fails during the wait, it returns that
// error; Open would try again. Canceling ctx ends the wait, not the copy.
func (l *Ref) WaitRange(ctx context.Context, version objstore.Info, at, bytes int64) (bool, error) {
	u, err := l.waitRange(ctx, version, at, bytes)
	return u != nil, err
}

// ReadUnfinished waits as WaitRange does and reads the bytes. If it returns false, b has undefined
// content.
func (l *Ref) ReadUnfinished(ctx context.Context, version objstore.Info, b []byte, at int64) (bool, error) {
	u, err := l.waitRange(ctx, version, at, int64(len(b)))
	if u == nil || err != nil {
		return false, err
	}
	return u.readAt(b, at), nil
}

// waitRange is WaitRange that returns the copy in progress, or nil.
func (l *Ref) waitRange(ctx context.Context, version objstore.Info, at, bytes int64) (*unfinished, error) {
	if at < 0 || bytes < 0 || at > version.Size-bytes {
		return nil, nil
	}
	for first, failures := true, 0; ; first = false {
		u, err := l.unfinished(ctx, version, first, &failures)
		if u == nil || err != nil {
			return nil, err
		}
		if ok, err := u.wait(ctx, at, bytes); err != nil {
			return nil, err
		} else if ok {
			return u, nil
		}
		// The copy has ended, or begins again. Where the disk is full, each copy would end so.
	}
}

// WaitCopy waits for the end of a copy that is in progress, whatever its result.
func (l *Ref) WaitCopy(ctx context.Context) error {
	it := l.it
	p := it.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for it.state == running && !p.stopping && !l.released.Load() {
		if err := p.await(ctx, it); err != nil {
			return err
		}
	}
	runtime.KeepAlive(l)
	return nil
}

// unfinished returns the copy of that version in progress, or nil if there is none. The first call
// may begin one and sets failures. Further calls return the error of a copy that has failed since
// the first.
func (l *Ref) unfinished(ctx context.Context, version objstore.Info, first bool,
	failures *int) (*unfinished, error) {
	it := l.it
	p := it.p
	p.mu.Lock()
	if p.stopping || l.released.Load() {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if first {
		*failures = it.failures
	}
	it.refs++
	u, err := p.findUnfinished(ctx, it, version, first, *failures)
	p.mu.Unlock()
	p.release(it)
	runtime.KeepAlive(l)
	return u, err
}

// findUnfinished waits until a copy of the item has begun, or has ended without parts. If begin is
// set, it begins one. It returns the error of a copy that failed after this number of failures. mu
// is held.
func (p *Pool) findUnfinished(ctx context.Context, it *item, version objstore.Info, begin bool,
	failures int) (*unfinished, error) {
	if !p.stages() { // Open reads the object
		return nil, nil
	}
	it.wanted++
	defer func() {
		if it.wanted--; it.wanted == 0 {
			it.direct = nil
		}
	}()
	for {
		switch u := it.unfinished; {
		case p.stopping:
			return nil, ErrClosed
		case u != nil && u.version.Size == version.Size && objstore.SameVersion(u.version, version):
			return u, nil
		case u != nil:
			return nil, nil
		case it.state == idle && begin, it.state == queued:
			p.runNow(it)
		case it.state == failed && it.failures > failures:
			return nil, it.err
		case it.state != running:
			return nil, nil
		}
		if err := p.await(ctx, it); err != nil {
			return nil, err
		}
	}
}

// await waits until an item changes. mu is held, except during the wait.
func (p *Pool) await(ctx context.Context, it *item) error {
	changed := it.changed()
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
