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

// Lazy is an object that was asked for. It may be used by many goroutines, and read any number of times. What it refers to is not removed
// before Release.
type Lazy struct{ h *handle }

// handle is a reference to an item that ends once.
type handle struct {
	it       *item
	released atomic.Bool
	cleanup  runtime.Cleanup
}

func newLazy(it *item, held bool) *Lazy {
	l := &Lazy{h: &handle{it: it}}
	if !held {
		l.h.released.Store(true)
		return l
	}
	// A Lazy that was forgotten must not keep its room for ever.
	l.h.cleanup = runtime.AddCleanup(l, (*handle).release, l.h)
	return l
}

func (h *handle) release() {
	if h.released.CompareAndSwap(false, true) {
		h.it.p.release(h.it)
	}
}

// Release ends the use of the object by this Lazy; Readers that are open stay. It may be called again.
func (l *Lazy) Release() {
	l.h.cleanup.Stop()
	l.h.release()
}

// Info tells where the object comes from.
func (l *Lazy) Info() SourceInfo { return describe(l.h.it.src, l.h.it.name) }

// Open waits until the object is there and opens it; if it was still queued it comes first now, and if it waits for room it is read without being staged. ctx ends
// the waiting, not the copy. After an error the next call tries again. The caller closes the Reader.
func (l *Lazy) Open(ctx context.Context) (*Reader, error) {
	it := l.h.it
	p := it.p
	p.mu.Lock()
	if p.stopping || l.h.released.Load() {
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

// Bytes is what Open gives, in memory that is the caller's.
func (l *Lazy) Bytes(ctx context.Context) ([]byte, error) {
	r, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.bytes(ctx)
}

// Append appends what Open gives to b and returns it: memory that is used again spares the collector, which takes more time than the copying where Bytes makes
// new memory for each object.
func (l *Lazy) Append(ctx context.Context, b []byte) ([]byte, error) {
	r, err := l.Open(ctx)
	if err != nil {
		return b, err
	}
	defer r.Close()
	return r.append(ctx, b)
}

// open gives a Reader of an item that the caller refers to; the reference becomes the Reader's.
func (p *Pool) open(ctx context.Context, it *item) (*Reader, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it.wanted++
	defer func() {
		if it.wanted--; it.wanted == 0 {
			it.direct = nil
		}
	}()
	failures, throughs := it.failures, it.throughs
	var patience <-chan time.Time
	for {
		if p.stopping {
			return nil, ErrClosed
		}
		if it.throughs > throughs { // its state may be another one again
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
		case parked:
			p.readThrough(it)
		case away:
			// The other process may be stopped, or its source slow. It is not waited for longer than for a source that gives nothing.
			if patience == nil {
				patience = time.After(p.stall())
			}
		}
		changed := it.changed()
		p.mu.Unlock()
		late := false
		var err error
		select {
		case <-changed:
		case <-patience:
			late = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if err != nil {
			return nil, err
		}
		if patience = nil; late && it.state == away {
			delete(p.away, it)
			p.readThrough(it)
		}
	}
}

// stall is how long nobody waits for another process.
func (p *Pool) stall() time.Duration {
	if p.o.Retry.Stall > 0 {
		return p.o.Retry.Stall
	}
	return 30 * time.Second
}

// direct is an object that is read without being staged, for those who wait for it.
type direct struct {
	bytes []byte        // nil: it is too large for that, and read by pieces
	sole  bool          // one alone waited for it
	info  objstore.Info // of the version that is read
	err   error
}

// directMemory is up to which size an object that is not staged is held in memory while it is read. Larger ones are read from their source piece by piece.
const directMemory = 64 << 20

// readThrough has an item read for those who wait for it now, once for all of them. mu is held.
func (p *Pool) readThrough(it *item) {
	ctx, cancel := context.WithCancel(p.ctx)
	it.cancel = cancel
	p.setState(it, through, nil)
	p.wg.Go(func() {
		defer cancel()
		d := &direct{}
		p.count(countThrough, 1)
		p.count(countReads, 1)
		d.bytes, d.info, d.err = p.readAll(ctx, it.src, it.name, directMemory)
		p.mu.Lock()
		defer p.mu.Unlock()
		it.cancel = nil
		if d.err == nil || ctx.Err() == nil { // else it was released, and who wants it again tries again; or the pool is being closed
			if it.wanted > 0 {
				d.sole = it.wanted == 1
				it.direct = d
				it.throughs++
			}
			if d.err != nil {
				p.count(countErrors, 1)
			}
		}
		p.setState(it, idle, nil)
	})
}

// readAll reads an object into memory, if it has no more bytes than limit; nil and no error: it has. What comes is checked like what is staged.
func (p *Pool) readAll(ctx context.Context, src Source, name string, limit int64) ([]byte, objstore.Info, error) {
	if m, ok := src.(maker); ok {
		info, b, err := m.make(ctx, name)
		return b, info, err
	}
	info, body, err := p.retry().Read(ctx, src, name, 0, -1, nil)
	if err != nil {
		return nil, info, err
	}
	defer body.Close()
	if info.Size > limit {
		return nil, info, nil
	}
	var b bytes.Buffer
	b.Grow(int(min(max(info.Size, 0), directMemory)) + bytes.MinRead) // more only as it comes: the size may be wrong
	if info.Size < 0 {
		_, err = b.ReadFrom(io.LimitReader(body, min(limit, math.MaxInt64-1)+1))
		if err == nil && int64(b.Len()) > limit { // how large it is shows at its end; then it is read by pieces
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

// wrongSize is the error where not as many bytes came as were announced.
func wrongSize(id string, came, announced int64) error {
	switch {
	case came < announced:
		return fmt.Errorf("stage: %s: %d bytes came where %d were announced (%w)", id, came, announced, io.ErrUnexpectedEOF)
	case came > announced:
		return fmt.Errorf("stage: %s: more bytes came than the %d that were announced", id, announced)
	}
	return nil
}

// wrongSum is the error where bytes have not the checksum that the store announces.
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
