package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"leat/objstore"
	"leat/stage/internal/ledger"
)

// Reader reads one version of an object. ReadAt may be called by many goroutines at once; Read, Seek and Close by one.
type Reader struct {
	h      *handle
	e      *ledger.Entry // nil: it is read directly
	direct *direct
	size   int64
	at     int64 // of Read

	mu   sync.Mutex
	f    *os.File // of an object that is a file
	path *Reader  // a copy of it that is a file, see Path
	body io.ReadCloser
	next int64 // what body gives next
}

// newReader makes a Reader of an item; the caller's reference becomes its own. mu is held.
func newReader(it *item, e *ledger.Entry, d *direct) *Reader {
	r := &Reader{h: &handle{it: it}, e: e, direct: d}
	if e != nil {
		r.size = e.Size
	} else {
		r.size = d.info.Size
	}
	r.h.cleanup = runtime.AddCleanup(r, (*handle).release, r.h)
	return r
}

// Size is the object's, in bytes.
func (r *Reader) Size() int64 { return r.size }

// Info tells where the object comes from.
func (r *Reader) Info() SourceInfo { return describe(r.h.it.src, r.h.it.name) }

// Staged tells whether the bytes are on the local disk. Otherwise there was no room for them: they are in memory, or come from the source piece by piece if the object is large.
func (r *Reader) Staged() bool { return r.e != nil }

// Version is what tells this version of the object from others.
func (r *Reader) Version() objstore.Info {
	if r.e != nil {
		m := match(r.e)
		m.Name = r.h.it.name
		return *m
	}
	return r.direct.info
}

// ReadAt reads from the byte at on, as io.ReaderAt says. Bytes that the disk does not give any more are read from the source.
func (r *Reader) ReadAt(b []byte, at int64) (int, error) {
	p := r.h.it.p
	if !p.enter() {
		return 0, ErrClosed
	}
	defer p.leave()
	if r.h.released.Load() {
		return 0, ErrClosed
	}
	defer runtime.KeepAlive(r)
	if at < 0 {
		return 0, fmt.Errorf("stage: reading %s from byte %d", r.h.it.id, at)
	}
	want := b
	if at >= r.size {
		want = nil
	} else if int64(len(b)) > r.size-at {
		want = b[:r.size-at]
	}
	n, err := 0, error(nil)
	if len(want) > 0 {
		n, err = r.readAt(want, at)
	}
	if n < len(b) && err == nil {
		err = io.EOF
	}
	return n, err
}

// readAt reads bytes that the object has.
func (r *Reader) readAt(b []byte, at int64) (int, error) {
	switch {
	case r.e == nil && r.direct.bytes != nil:
		return copy(b, r.direct.bytes[at:]), nil
	case r.e == nil:
		return r.fromSource(b, at, &r.direct.info)
	}
	n, err := r.fromDisk(b, at)
	if n == len(b) {
		return n, nil
	}
	p := r.h.it.p
	p.count(countDamaged, 1)
	p.o.Warn(fmt.Errorf("stage: reading %s again from its source: %w", r.h.it.id, err))
	r.e.Discard()
	m, err := r.fromSource(b[n:], at+int64(n), match(r.e))
	return n + m, err
}

func (r *Reader) fromDisk(b []byte, at int64) (int, error) {
	p := r.h.it.p
	if r.e.Place.Packed() {
		return p.shelf.ReadAt(r.e.Place, b, at)
	}
	r.mu.Lock()
	if r.f == nil {
		f, err := p.shelf.OpenFile(r.e.Place)
		if err != nil {
			r.mu.Unlock()
			return 0, err
		}
		r.f = f
	}
	f := r.f
	r.mu.Unlock()
	return f.ReadAt(b, at)
}

// fromSource reads bytes of the same version from the source.
func (r *Reader) fromSource(b []byte, at int64, version *objstore.Info) (int, error) {
	it := r.h.it
	_, body, err := it.p.retry().Read(it.p.ctx, it.src, it.name, at, int64(len(b)), version)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.ReadFull(body, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Read reads the next bytes.
func (r *Reader) Read(b []byte) (int, error) {
	if r.e == nil && r.direct.bytes == nil {
		return r.stream(b)
	}
	n, err := r.ReadAt(b, r.at)
	r.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// stream reads the next bytes of a large object that is not staged, by one request for all that is left.
func (r *Reader) stream(b []byte) (int, error) {
	it := r.h.it
	if !it.p.enter() {
		return 0, ErrClosed
	}
	defer it.p.leave()
	if r.h.released.Load() {
		return 0, ErrClosed
	}
	if r.at >= r.size {
		return 0, io.EOF
	}
	if r.body != nil && r.next != r.at {
		r.body.Close()
		r.body = nil
	}
	if r.body == nil {
		_, body, err := it.p.retry().Read(it.p.ctx, it.src, it.name, r.at, -1, &r.direct.info)
		if err != nil {
			return 0, err
		}
		r.body, r.next = body, r.at
	}
	n, err := r.body.Read(b[:min(int64(len(b)), r.size-r.at)])
	r.at += int64(n)
	r.next = r.at
	if err == io.EOF && r.at < r.size {
		err = wrongSize(it.id, r.at, r.size)
	}
	if err != nil && err != io.EOF { // the next Read asks again
		r.body.Close()
		r.body = nil
	}
	return n, err
}

// Seek sets where Read reads next, as io.Seeker says.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("stage: seeking in %s: whence is %d", r.h.it.id, whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("stage: seeking in %s to byte %d", r.h.it.id, offset)
	}
	r.at = offset
	return offset, nil
}

// bytes returns the whole, in memory that is the caller's.
func (r *Reader) bytes(ctx context.Context) ([]byte, error) {
	switch {
	case r.e == nil && r.direct.bytes != nil && r.direct.sole:
		return slices.Clip(r.direct.bytes), nil
	case r.e == nil && r.direct.bytes == nil: // of a size that was announced, and may be wrong: memory as the bytes come
		return io.ReadAll(r)
	}
	return r.append(ctx, make([]byte, 0, r.size))
}

// append appends the whole.
func (r *Reader) append(ctx context.Context, b []byte) ([]byte, error) {
	switch {
	case r.e == nil && r.direct.bytes != nil:
		return append(b, r.direct.bytes...), nil
	case r.e == nil:
		more := bytes.NewBuffer(b)
		_, err := more.ReadFrom(r)
		return more.Bytes(), err
	}
	n := len(b)
	b = slices.Grow(b, int(r.size))[:n+int(r.size)]
	if _, err := r.ReadAt(b[n:], 0); err != nil && !errors.Is(err, io.EOF) {
		return b[:n], err
	}
	return b, ctx.Err()
}

// Path is the name of a local file that holds exactly the object, for programs that want one. It must not be written to, and is valid until Close. Its
// extension is that of the object's name. A small object is copied to a file of its own for it. Where there is no room the error is ErrNoRoom.
func (r *Reader) Path() (string, error) {
	if r.h.released.Load() {
		return "", ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.e
	if e == nil || e.Place.Packed() {
		if r.path == nil {
			f, err := r.h.it.p.asFile(r)
			if err != nil {
				return "", err
			}
			r.path = f
		}
		e = r.path.e
	}
	p := r.h.it.p
	if !p.enter() {
		return "", ErrClosed
	}
	defer p.leave()
	return p.shelf.Path(e.Place), nil
}

// Close ends the use of the object by this Reader. It may be called again.
func (r *Reader) Close() error {
	r.h.cleanup.Stop()
	if r.h.released.Load() {
		return nil
	}
	var err error
	r.mu.Lock()
	if r.f != nil {
		err = r.f.Close()
		r.f = nil
	}
	if r.body != nil {
		r.body.Close()
		r.body = nil
	}
	if r.path != nil {
		err = errors.Join(err, r.path.Close())
	}
	r.mu.Unlock()
	r.h.release()
	return err
}

// entryReader reads a staged object that has no Reader.
type entryReader struct {
	p *Pool
	e *ledger.Entry
	f *os.File
}

func (p *Pool) openEntry(e *ledger.Entry) (*entryReader, error) {
	if e.Place.Packed() {
		return &entryReader{p: p, e: e}, nil
	}
	f, err := p.shelf.OpenFile(e.Place)
	return &entryReader{p: p, e: e, f: f}, err
}

func (r *entryReader) ReadAt(b []byte, at int64) (int, error) {
	if r.f != nil {
		return r.f.ReadAt(b, at)
	}
	return r.p.shelf.ReadAt(r.e.Place, b, at)
}

func (r *entryReader) Close() error {
	if r.f != nil {
		return r.f.Close()
	}
	return nil
}
