package stage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"leat/internal/fault"
	"leat/objstore"
	"leat/stage/internal/index"
)

// Reader reads one version of an object. ReadAt, Path and Close may be called concurrently; Read
// and Seek by one goroutine at a time.
type Reader struct {
	it   *item
	src  Source
	uses atomic.Int64 // calls in progress, plus closedReader after Close

	e      *index.Entry // nil: not staged
	direct *direct
	size   int64
	at     int64 // offset of the next Read

	mu   sync.Mutex
	f    *os.File // of an object with a file of its own
	path *Reader  // a copy with a file of its own, see Path
	body io.ReadCloser
	next int64 // offset of body

	streamed bool // body has returned bytes
}

// closedReader is in Reader.uses of a closed Reader.
const closedReader = 1 << 62

// newReader returns a Reader of an item and takes over the caller's reference. mu is held.
func newReader(it *item, e *index.Entry, d *direct) *Reader {
	r := &Reader{it: it, src: it.src, e: e, direct: d}
	if e != nil {
		r.size = e.Size
	} else {
		r.size = d.info.Size
	}
	return r
}

// guarded returns r, which is released even if the program loses it.
func (r *Reader) guarded() *Reader {
	runtime.SetFinalizer(r, (*Reader).lose)
	return r
}

// lose releases a Reader that the program lost.
func (r *Reader) lose() {
	if r.uses.Or(closedReader)&closedReader == 0 {
		go r.it.p.release(r.it) // other finalizers must not wait for it
	}
}

// use begins a call that uses the object, and reports whether the Reader is open. unuse ends it.
func (r *Reader) use() bool {
	for {
		n := r.uses.Load()
		if n&closedReader != 0 {
			return false
		}
		if r.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// unuse ends a call, and the use of the object if the Reader was closed meanwhile.
func (r *Reader) unuse() {
	if r.uses.Add(-1) == closedReader {
		if err := r.end(); err != nil {
			r.it.p.o.Logger.Warn("closing staged file failed", "object", r.it.id, "error", err)
		}
	}
	runtime.KeepAlive(r)
}

// Size returns the size of the object in bytes.
func (r *Reader) Size() int64 { return r.size }

func (r *Reader) describe() SourceInfo { return describe(r.src, r.it.name) }

// Staged reports whether the bytes are on the local disk. Otherwise there was no space for them:
// they are in memory, or, for large objects, read from the source as needed.
func (r *Reader) Staged() bool { return r.e != nil }

// Version returns what identifies this version of the object.
func (r *Reader) Version() objstore.Info {
	if r.e != nil {
		m := infoOf(r.e)
		m.Name = r.it.name
		return *m
	}
	return r.direct.info
}

// ReadAt implements io.ReaderAt. Bytes that the disk fails to return are read from the source. A
// call during Close reads the bytes or returns ErrClosed.
func (r *Reader) ReadAt(b []byte, at int64) (int, error) {
	return r.readAtContext(r.it.p.ctx, b, at)
}

// readAtContext is ReadAt with a context that ends the requests to the source, as Close does.
func (r *Reader) readAtContext(ctx context.Context, b []byte, at int64) (int, error) {
	if !r.use() {
		return 0, ErrClosed
	}
	defer r.unuse()
	return r.readInUse(ctx, b, at)
}

// readInUse is readAtContext within a call that uses the object, whether the Reader is open or not.
func (r *Reader) readInUse(ctx context.Context, b []byte, at int64) (int, error) {
	p := r.it.p
	if !p.enter() {
		return 0, ErrClosed
	}
	defer p.leave()
	if at < 0 {
		return 0, fmt.Errorf("reading %s: the offset is %d, expected 0 or more", r.it.id, at)
	}
	want := b
	if at >= r.size {
		want = nil
	} else if int64(len(b)) > r.size-at {
		want = b[:r.size-at]
	}
	n, err := 0, error(nil)
	if len(want) > 0 {
		n, err = r.readAt(ctx, want, at)
	}
	if n < len(b) && err == nil {
		err = io.EOF
	}
	return n, err
}

// readAt reads a range that lies within the object.
func (r *Reader) readAt(ctx context.Context, b []byte, at int64) (int, error) {
	switch {
	case r.e == nil && r.direct.bytes != nil:
		return copy(b, r.direct.bytes[at:]), nil
	case r.e == nil:
		return r.fromSource(ctx, b, at, &r.direct.info)
	}
	n, err := r.fromDisk(b, at)
	if n == len(b) {
		return n, nil
	}
	r.it.p.noteUnreadable(r.e, r.it.id, err)
	version := infoOf(r.e)
	_, put := r.src.(*memSource)
	if !version.Versioned() || put && !isDamage(err) {
		return n, fmt.Errorf("reading %s: %w", r.it.id, err)
	}
	m, sourceErr := r.fromSource(ctx, b[n:], at+int64(n), version)
	if sourceErr != nil && !isDamage(err) {
		sourceErr = fmt.Errorf("%w (the staged copy is not readable: %w)", sourceErr, err)
	}
	return n + m, sourceErr
}

func (r *Reader) fromDisk(b []byte, at int64) (int, error) {
	if err := fault.Error("stage.reading"); err != nil {
		return 0, err
	}
	p := r.it.p
	if r.e.Place.Packed() {
		return p.store.ReadAt(r.e.Place, b, at)
	}
	r.mu.Lock()
	if r.f == nil {
		f, err := p.store.OpenFile(r.e.Place)
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

// ErrUnversioned is returned instead of a second request for an object that is not staged and whose
// source has no versions.
var ErrUnversioned = errors.New("its source has no versions: it can only be read in order, by one request")

// fromSource reads bytes of the given version from the source.
func (r *Reader) fromSource(ctx context.Context, b []byte, at int64, version *objstore.Info) (int, error) {
	it := r.it
	if !version.Versioned() {
		return 0, fmt.Errorf("reading %s from byte %d: %w", it.id, at, ErrUnversioned)
	}
	ctx, cancel := it.p.within(ctx)
	defer cancel()
	_, body, err := it.p.retry.Read(ctx, r.src, it.name, at, int64(len(b)), version)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return objstore.ReadFull(body, b)
}

// Read implements io.Reader.
func (r *Reader) Read(b []byte) (int, error) {
	if r.e == nil && r.direct.bytes == nil {
		return r.stream(r.it.p.ctx, b)
	}
	n, err := r.ReadAt(b, r.at)
	r.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// stream reads the next bytes of a large object that is not staged, by one request for the whole
// rest. Canceling ctx ends the request, which later calls share.
func (r *Reader) stream(ctx context.Context, b []byte) (int, error) {
	it := r.it
	if !r.use() {
		return 0, ErrClosed
	}
	defer r.unuse()
	if !it.p.enter() {
		return 0, ErrClosed
	}
	defer it.p.leave()
	if r.at >= r.size {
		return 0, r.endStream()
	}
	if r.body != nil && r.next != r.at {
		r.body.Close()
		r.body = nil
	}
	if r.body == nil {
		if r.streamed && !r.direct.info.Versioned() {
			return 0, fmt.Errorf("reading %s from byte %d: %w", it.id, r.at, ErrUnversioned)
		}
		_, body, err := it.p.retry.Read(ctx, r.src, it.name, r.at, -1, &r.direct.info)
		if err != nil {
			return 0, err
		}
		r.body, r.next = body, r.at
	}
	n, err := r.body.Read(b[:min(int64(len(b)), r.size-r.at)])
	r.streamed = r.streamed || n > 0
	r.at += int64(n)
	r.next = r.at
	if err == io.EOF && r.at < r.size {
		err = wrongSize(it.id, r.at, r.size)
	}
	if err != nil && err != io.EOF { // the next Read makes a new request
		r.body.Close()
		r.body = nil
	}
	return n, err
}

// endStream returns io.EOF, or the error of a source that finds at the end of the object that it
// was replaced meanwhile.
func (r *Reader) endStream() error {
	if r.body == nil {
		return io.EOF
	}
	err := io.EOF
	if r.next == r.size {
		err = cmp.Or(objstore.CheckEnd(r.body), io.EOF)
	}
	r.body.Close()
	r.body = nil
	return err
}

// Seek implements io.Seeker.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("seeking in %s: whence is %d, expected 0, 1 or 2", r.it.id, whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seeking in %s: the position is %d, expected 0 or more", r.it.id, offset)
	}
	r.at = offset
	return offset, nil
}

// bytes returns the whole object in memory owned by the caller.
func (r *Reader) bytes(ctx context.Context) ([]byte, error) {
	if d := r.direct; r.e == nil && d.bytes != nil && d.sole {
		return slices.Clip(d.bytes), nil
	}
	if r.e == nil {
		return r.append(ctx, nil)
	}
	return r.append(ctx, r.it.p.buffers.Get(int(r.size))[:0])
}

// readStep is how many bytes are read from the local disk between two checks of the context.
const readStep = 1 << 20

// append appends the whole object to b. After an error it returns b unchanged.
func (r *Reader) append(ctx context.Context, b []byte) ([]byte, error) {
	if r.e == nil && r.direct.bytes != nil {
		return append(b, r.direct.bytes...), nil
	}
	all, err := r.appendContext(ctx, b)
	switch {
	case err == nil:
		return all, nil
	case r.it.p.ctx.Err() != nil:
		err = ErrClosed
	}
	return b, err
}

func (r *Reader) appendContext(ctx context.Context, b []byte) ([]byte, error) {
	if r.e == nil { // the announced size may be wrong: memory grows with the bytes
		ctx, cancel := r.it.p.within(ctx)
		defer cancel()
		more := bytes.NewBuffer(b)
		_, err := more.ReadFrom(streamReader{ctx, r})
		return more.Bytes(), err
	}
	b = slices.Grow(b, int(r.size))
	for at := int64(0); at < r.size; {
		if err := cmp.Or(ctx.Err(), r.it.p.ctx.Err()); err != nil {
			return nil, err
		}
		n, err := r.readAtContext(ctx, b[len(b):len(b)+int(min(readStep, r.size-at))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b, at = b[:len(b)+n], at+int64(n)
	}
	return b, nil
}

// within returns a context that is canceled with ctx or with the pool.
func (p *Pool) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// streamReader is an io.Reader of a large object that is not staged. Canceling ctx ends it.
type streamReader struct {
	ctx context.Context
	r   *Reader
}

func (s streamReader) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.stream(s.ctx, b)
}

// Path returns the path of a local file with exactly the object's bytes, for programs that need
// one. It must not be written to. The path is valid until Close, or until the stage's directory is
// renamed; the next call then returns the new one. Its extension is that of the object's name. A
// small object is copied to a file of its own. The error is ErrNoSpace if there is no space for
// that.
func (r *Reader) Path() (string, error) {
	if !r.use() {
		return "", ErrClosed
	}
	defer r.unuse()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.e
	if e == nil || e.Place.Packed() {
		if r.path == nil {
			f, err := r.it.p.asFile(r)
			if err != nil {
				return "", err
			}
			r.path = f
		}
		e = r.path.e
	}
	p := r.it.p
	if !p.enter() {
		return "", ErrClosed
	}
	defer p.leave()
	return p.store.CheckPath(e.Place)
}

// Close ends the use of the object by this Reader, at the end of the calls that are in progress. It
// does not wait for them. It may be called again.
func (r *Reader) Close() error {
	before := r.uses.Or(closedReader)
	if before&closedReader != 0 {
		return nil
	}
	runtime.SetFinalizer(r, nil)
	if before > 0 {
		return nil // the last call does the rest
	}
	return r.end()
}

// end releases what a closed Reader has.
func (r *Reader) end() error {
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
	r.it.p.release(r.it)
	return err
}

// entryReader reads a staged object that has no Reader.
type entryReader struct {
	p *Pool
	e *index.Entry
	f *os.File
}

func (p *Pool) openEntry(e *index.Entry) (*entryReader, error) {
	if e.Place.Packed() {
		return &entryReader{p: p, e: e}, nil
	}
	f, err := p.store.OpenFile(e.Place)
	return &entryReader{p: p, e: e, f: f}, err
}

func (r *entryReader) ReadAt(b []byte, at int64) (int, error) {
	if err := fault.Error("stage.verifying"); err != nil {
		return 0, err
	}
	if r.f != nil {
		return r.f.ReadAt(b, at)
	}
	return r.p.store.ReadAt(r.e.Place, b, at)
}

func (r *entryReader) Close() error {
	if r.f != nil {
		return r.f.Close()
	}
	return nil
}
