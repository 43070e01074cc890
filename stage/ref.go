package stage

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"leat/objstore"
)

// Ref is a reference to a requested object. It may be used by many goroutines and opened any number
// of times. The object is not evicted before Release.
type Ref struct {
	it       *item
	released atomic.Bool
}

func newRef(it *item, held bool) *Ref {
	l := &Ref{it: it}
	if held {
		// A Ref that the program lost must not keep its space for ever. A cleanup would take three
		// more objects, which the garbage collector visits again and again.
		runtime.SetFinalizer(l, (*Ref).lose)
	} else {
		l.released.Store(true)
	}
	return l
}

// lose releases a Ref that the program lost.
func (l *Ref) lose() {
	if !l.released.Swap(true) {
		go l.it.p.release(l.it) // other finalizers must not wait for it
	}
}

// Release ends the use of the object by this Ref; open Readers stay valid. It may be called again.
func (l *Ref) Release() {
	if !l.released.Swap(true) {
		runtime.SetFinalizer(l, nil)
		l.it.p.release(l.it)
	}
}

// Info returns the origin of the object.
func (l *Ref) Info() SourceInfo {
	l.it.p.mu.Lock()
	src := l.it.src // another Prefetch may replace it
	l.it.p.mu.Unlock()
	return describe(src, l.it.name)
}

// Open waits until the object is staged and opens it. A queued object is copied at once, and one
// that waits for space is read without being staged. Canceling ctx ends the wait, not the copy.
// After an error the next call tries again. The caller closes the Reader.
func (l *Ref) Open(ctx context.Context) (*Reader, error) {
	r, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	return r.guarded(), nil
}

// open is Open for a caller that is certain to close the Reader.
func (l *Ref) open(ctx context.Context) (*Reader, error) {
	it := l.it
	p := it.p
	p.mu.Lock()
	if p.stopping || l.released.Load() {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	it.refs++
	p.mu.Unlock()
	r, err := p.open(ctx, it)
	if err != nil {
		p.release(it)
		return nil, err
	}
	runtime.KeepAlive(l)
	return r, nil
}

// Bytes reads the whole object into memory owned by the caller, who may [Pool.Recycle] it.
// Canceling ctx ends the wait and the reading.
func (l *Ref) Bytes(ctx context.Context) ([]byte, error) {
	return l.read(ctx, func(r *Reader) ([]byte, error) { return r.bytes(ctx) })
}

// Append appends the whole object to b. After an error it returns b unchanged.
func (l *Ref) Append(ctx context.Context, b []byte) ([]byte, error) {
	all, err := l.read(ctx, func(r *Reader) ([]byte, error) { return r.append(ctx, b) })
	if err != nil {
		return b, err
	}
	return all, nil
}

// read opens the object and calls all to read it whole. It does so again where only a read from the
// beginning can succeed.
func (l *Ref) read(ctx context.Context, all func(*Reader) ([]byte, error)) ([]byte, error) {
	for tries := 0; ; tries++ {
		r, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		b, err := all(r)
		staged := r.Staged()
		_ = r.Close()
		if err == nil {
			return b, nil
		}
		if staged || tries == restarts || !canRestart(err) || ctx.Err() != nil {
			return nil, err
		}
		l.it.p.count(countRetries, 1)
	}
}

// open returns a Reader of an item and takes over the caller's reference, unless it returns an
// error.
func (p *Pool) open(ctx context.Context, it *item) (*Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it.wanted++
	defer func() {
		if it.wanted--; it.wanted == 0 {
			it.direct = nil
		}
	}()
	failures, directReads := it.failures, it.directReads
	var timeout <-chan time.Time
	for {
		if p.stopping {
			return nil, ErrClosed
		}
		if it.directReads > directReads { // its state may have changed again
			if err := it.direct.err; err != nil {
				return nil, err
			}
			return newReader(it, nil, it.direct), nil
		}
		switch it.state {
		case staged:
			return newReader(it, it.entry, nil), nil
		case failed:
			if it.failures > failures {
				return nil, it.err
			}
			p.runNow(it)
		case idle, queued:
			p.runNow(it)
		case waitingForSpace:
			p.readThrough(it)
		case copiedElsewhere:
			// The other process may be stopped or its source slow: wait no longer than for a
			// stalled source.
			if timeout == nil {
				timeout = time.After(p.stallTimeout())
			}
		}
		changed := it.changed()
		p.mu.Unlock()
		late := false
		var err error
		select {
		case <-changed:
		case <-timeout:
			late = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil {
			return nil, err
		}
		if timeout = nil; late && it.state == copiedElsewhere {
			delete(p.elsewhere, it)
			p.readThrough(it)
		}
	}
}

// stallTimeout returns how long the pool waits for a copy of another process.
func (p *Pool) stallTimeout() time.Duration {
	if p.o.Retry.StallTimeout > 0 {
		return p.o.Retry.StallTimeout
	}
	return 30 * time.Second
}

// direct is the result of reading an object without staging it.
type direct struct {
	bytes []byte        // nil: too large, and read piece by piece
	sole  bool          // only one caller waited for it
	info  objstore.Info // of the version to read
	err   error
}

// directMemory is the largest size up to which an object that is not staged is held in memory.
// Larger ones are read from their source piece by piece.
const directMemory = 64 << 20

// readThrough reads an item directly, once for all callers that wait for it now. mu is held.
func (p *Pool) readThrough(it *item) {
	ctx, cancel := context.WithCancel(p.ctx)
	it.cancel = cancel
	p.setState(it, directRead, nil)
	p.wg.Go(func() {
		defer cancel()
		d := &direct{}
		p.count(countReadThrough, 1)
		p.count(countReads, 1)
		d.bytes, d.info, d.err = p.readAll(ctx, it.src, it.name, directMemory)
		p.mu.Lock()
		defer p.mu.Unlock()
		it.cancel = nil
		// otherwise it was released, and the next caller tries again; or the pool is being closed
		if d.err == nil || ctx.Err() == nil {
			if it.wanted > 0 {
				d.sole = it.wanted == 1
				it.direct = d
				it.directReads++
			}
			if d.err != nil {
				p.count(countErrors, 1)
			}
		}
		p.setState(it, idle, nil)
	})
}

// readAll reads an object into memory and verifies it. If the object has more than limit bytes, it
// returns nil without an error.
func (p *Pool) readAll(ctx context.Context, src Source, name string, limit int64) ([]byte, objstore.Info, error) {
	if m, ok := src.(maker); ok {
		info, b, err := m.make(ctx, name)
		return b, info, err
	}
	for tries := 0; ; tries++ {
		b, info, err := p.readOnce(ctx, src, name, limit)
		if err == nil || tries == restarts || !canRestart(err) || ctx.Err() != nil {
			return b, info, err
		}
		p.count(countRetries, 1)
	}
}

// readOnce is readAll without another attempt from the beginning.
func (p *Pool) readOnce(ctx context.Context, src Source, name string, limit int64) ([]byte, objstore.Info, error) {
	info, body, err := p.retry.Read(ctx, src, name, 0, -1, nil)
	if err != nil {
		return nil, info, err
	}
	defer body.Close()
	if info.Size > limit {
		return nil, info, nil
	}
	var b bytes.Buffer
	// grows further only with the bytes: the size may be wrong
	b.Grow(int(min(max(info.Size, 0), directMemory)) + bytes.MinRead)
	if info.Size < 0 {
		_, err = b.ReadFrom(io.LimitReader(body, min(limit, math.MaxInt64-1)+1))
		if err == nil && int64(b.Len()) > limit { // only the end shows its size; it is then read piece by piece
			rest, err := io.Copy(io.Discard, body)
			info.Size = int64(b.Len()) + rest
			return nil, info, err
		}
	} else if _, err = b.ReadFrom(io.LimitReader(body, min(info.Size, math.MaxInt64-1)+1)); err == nil {
		err = wrongSize(src.ID(name), int64(b.Len()), info.Size)
	}
	if err == nil {
		err = wrongSum(src.ID(name), b.Bytes(), info)
	}
	if err != nil {
		return nil, info, err
	}
	info.Size = int64(b.Len())
	return b.Bytes(), info, nil
}

// wrongSize returns an error unless as many bytes arrived as were announced.
func wrongSize(id string, came, announced int64) error {
	switch {
	case came < announced:
		return fmt.Errorf("%s: received %d of %d bytes: %w", id, came, announced,
			io.ErrUnexpectedEOF)
	case came > announced:
		return fmt.Errorf("%s: received more than the announced %d bytes", id, announced)
	}
	return nil
}

// wrongSum returns an error unless b has the checksum that the store announced.
func wrongSum(id string, b []byte, info objstore.Info) error {
	switch {
	case len(info.CRC32C) == 4:
		if crc32.Checksum(b, castagnoli) == binary.BigEndian.Uint32(info.CRC32C) {
			return nil
		}
	case len(info.MD5) == md5.Size:
		if sum := md5.Sum(b); bytes.Equal(sum[:], info.MD5) {
			return nil
		}
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", errChecksum, id)
}
