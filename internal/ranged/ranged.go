// Package ranged reads objects at any offset, as one reads files.
//
// [Open] returns a [Reader], an io.ReaderAt over one version of an object: Open's own request finds
// the version, and a later request that meets another one fails with objstore.ErrChanged. A request
// takes long whatever its size, so the Reader requests more than a small read needs. It fetches the
// ranges given to [Reader.Fetch] concurrently, joins those that are close together, and splits long
// ones. It never requests bytes that it holds or has already requested.
//
// A Reader holds the ranges that are fetched and not released, and at most Options.CacheBytes of
// others.
//
// Reading from a store without ranges is correct but slow.
package ranged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"leat/objstore"
)

// ErrNoSize is returned for an object whose server does not report its size.
var ErrNoSize = errors.New("the server does not report its size")

// Options configure a Reader; nil and zero fields mean the defaults.
type Options struct {
	// Retry repeats requests.
	Retry objstore.Retry
	// Limiter limits the concurrent requests of all Readers that share it; nil: 8 for this Reader.
	Limiter *Limiter
	// HeadBytes is what Open requests; default 32 KiB, which holds the header of most files.
	HeadBytes int64
	// BlockBytes is the size of the aligned blocks to which smaller reads are widened; default 16
	// KiB.
	BlockBytes int64
	// CacheBytes limits the unused bytes that stay in memory, the most recently used ones; default
	// 4 MiB.
	CacheBytes int64
}

// Fetching two ranges with the gap between them is faster than a second request if the gap is below
// some 2 MB, at 20 ms and 100 MB/s. But several requests run at once, and users pay by the byte. So
// a gap has at most maxGap bytes, and all gaps of a Reader have at most freeSlack plus 1/slackShare
// of the requested bytes.
const (
	maxGap     = 32 << 10
	freeSlack  = 16 << 10
	slackShare = 128
)

// maxRequest is the size above which ranges are split, to arrive over several connections: 4 MiB
// take 40 ms at 100 MB/s, twice the response time of a remote store.
const maxRequest = 4 << 20

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Limiter == nil {
		c.Limiter = NewLimiter(8)
	}
	if c.HeadBytes <= 0 {
		c.HeadBytes = 32 << 10
	}
	if c.BlockBytes <= 0 {
		c.BlockBytes = 16 << 10
	}
	if c.CacheBytes <= 0 {
		c.CacheBytes = 4 << 20
	}
	return c
}

// Limiter limits concurrent requests. Readers may share it.
type Limiter struct{ slots chan struct{} }

// NewLimiter returns a Limiter of n concurrent requests.
func NewLimiter(n int) *Limiter { return &Limiter{make(chan struct{}, max(1, n))} }

func (l *Limiter) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Limiter) leave() { <-l.slots }

// Reader reads one version of an object. All methods but Close are safe for concurrent use. It
// implements raster.Prefetcher.
type Reader struct {
	o      Options
	src    objstore.Source
	name   string
	info   objstore.Info
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	came    []received // only where the store does not identify versions; see Matches
	closed  bool
	pieces  pieces
	queue   []*piece // to be requested
	senders int      // goroutines that send the requests
}

// Open requests the beginning of an object. The Reader then reads only that version, if the store
// identifies versions. The end of ctx ends all requests of the Reader, including later ones. The
// caller closes the Reader. Errors are those of objstore.Retry.
func Open(ctx context.Context, src objstore.Source, name string, o *Options) (*Reader, error) {
	r := &Reader{o: o.withDefaults(), src: src, name: name}
	r.pieces.limit, r.pieces.slack = r.o.CacheBytes, freeSlack
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.head(); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// head reads the beginning of the object.
func (r *Reader) head() error {
	if err := r.o.Limiter.enter(r.ctx); err != nil {
		return err
	}
	defer r.o.Limiter.leave()
	info, body, err := r.o.Retry.Read(r.ctx, r.src, r.name, 0, r.o.HeadBytes, nil)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(body, r.o.HeadBytes))
	if err = errors.Join(err, body.Close()); err != nil {
		return err
	}
	if info.Size < 0 {
		version := info
		if info, err = r.o.Retry.Stat(r.ctx, r.src, r.name); err != nil {
			return err
		}
		if !objstore.SameVersion(version, info) {
			return &objstore.Error{Op: "reading", URL: r.src.ID(r.name), Err: objstore.ErrChanged}
		}
	}
	if info.Size < 0 {
		return fmt.Errorf("%s can't be read in pieces: %w", r.src.ID(r.name), ErrNoSize)
	}
	if want := min(info.Size, r.o.HeadBytes); int64(len(data)) < want {
		return &objstore.Error{Op: "reading", URL: r.src.ID(r.name), Err: io.ErrUnexpectedEOF}
	}
	r.info = info
	r.note(0, data)
	if len(data) > 0 {
		p := &piece{at: 0, bytes: int64(len(data)), data: data, ready: make(chan struct{})}
		close(p.ready)
		r.pieces.put(p)
		r.pieces.idle(p)
	}
	return nil
}

// Info returns the version that is read.
func (r *Reader) Info() objstore.Info { return r.info }

// Size returns the object's size in bytes.
func (r *Reader) Size() int64 { return r.info.Size }

// Close cancels requests and waits for them. Reads that wait for a request, and later reads, fail.
func (r *Reader) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces = pieces{}
	return nil
}

// ReadAt implements io.ReaderAt. It requests bytes that are neither in memory nor requested; a read
// smaller than a block fetches the whole block.
func (r *Reader) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fmt.Errorf("reading %s: the offset is %d, expected 0 or more", r.src.ID(r.name), at)
	}
	want := b
	if at >= r.info.Size {
		return 0, eofOf(b)
	} else if int64(len(b)) > r.info.Size-at {
		want = b[:r.info.Size-at]
	}
	held, err := r.acquire([]span{{at, int64(len(want))}}, true, nil)
	if err != nil {
		return 0, err
	}
	defer r.releaseAll(held)
	for _, p := range held { // in order, without gaps
		<-p.ready
		if p.err != nil {
			return int(max(0, p.at-at)), p.err
		}
		from, to := max(at, p.at), min(at+int64(len(want)), p.at+p.bytes)
		copy(want[from-at:to-at], p.data[from-p.at:to-p.at])
	}
	if len(want) < len(b) {
		return len(want), io.EOF
	}
	return len(b), nil
}

func eofOf(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return io.EOF
}

// acquire returns the pieces that cover the spans, which are ordered and disjoint, and requests
// what is missing, except spans for which skip returns true; skip may be nil. The caller releases
// the pieces with releaseAll.
func (r *Reader) acquire(spans []span, widen bool, skip func(span) bool) ([]*piece, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fs.ErrClosed
	}
	if skip != nil {
		spans = slices.DeleteFunc(spans, func(s span) bool { return !r.pieces.covers(s) && skip(s) })
	}
	missing := r.pieces.missing(spans)
	if widen {
		missing = r.pieces.widen(missing, r.o.BlockBytes, r.info.Size)
	} else {
		missing = r.pieces.join(missing)
	}
	var wanted []*piece
	for _, s := range missing {
		for at := s.at; at < s.at+s.bytes; at += maxRequest {
			p := &piece{at: at, bytes: min(maxRequest, s.at+s.bytes-at), ready: make(chan struct{})}
			r.pieces.put(p)
			p.refs++ // for the request
			wanted = append(wanted, p)
		}
	}
	if widen { // a reader waits for them
		r.queue = append(wanted, r.queue...)
	} else {
		r.queue = append(r.queue, wanted...)
	}
	// Many pieces may be wanted, but more goroutines than the Limiter admits would be useless.
	for range min(len(wanted), cap(r.o.Limiter.slots)-r.senders) {
		r.senders++
		r.wg.Go(r.sendQueued)
	}
	return r.pieces.hold(spans), nil
}

// sendQueued sends requests until the queue is empty.
func (r *Reader) sendQueued() {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.senders--
			r.mu.Unlock()
			return
		}
		p := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.request(p)
	}
}

// releaseAll releases pieces.
func (r *Reader) releaseAll(held []*piece) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range held {
		r.pieces.release(p)
	}
}

// request sends the request for a piece.
func (r *Reader) request(p *piece) {
	data, err := r.fetch(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.data, p.err = data, err
	if err != nil {
		r.pieces.drop(p) // the next reader requests it again
	} else {
		r.note(p.at, data)
	}
	close(p.ready)
	r.pieces.release(p)
}

func (r *Reader) fetch(p *piece) ([]byte, error) {
	if err := r.o.Limiter.enter(r.ctx); err != nil {
		return nil, err
	}
	defer r.o.Limiter.leave()
	_, body, err := r.o.Retry.Read(r.ctx, r.src, r.name, p.at, p.bytes, &r.info)
	if err != nil {
		return nil, err
	}
	data := make([]byte, p.bytes)
	_, err = objstore.ReadFull(body, data)
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	if err == io.ErrUnexpectedEOF {
		err = &objstore.Error{Op: "reading", URL: r.src.ID(r.name), Err: err}
	}
	return data, err
}
