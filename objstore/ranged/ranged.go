// Package ranged reads objects piece by piece, as one reads files at any place.
//
// [Open] gives a [Reader], an io.ReaderAt over one version of an object: a request has come back with it when Open returns, and a later one that
// meets another version fails with objstore.ErrChanged. Since a request takes long, whatever its size, the Reader asks for more than a small read needs, brings
// the pieces that [Reader.Fetch] names several at a time, joins those that lie close together, parts those that are long, and asks for nothing
// that it has or that is under way.
//
// Memory is bounded by what the caller has fetched and not released, and Options.CacheBytes on top.
//
// A store that does not know ranges is read correctly and slowly.
package ranged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"leat/objstore"
)

// Options say how objects are read; nil, and zero fields, are the defaults.
type Options struct {
	// Retry says how often a request is made.
	Retry objstore.Retry
	// Limiter bounds the requests under way of all Readers that have it; nil: one of 8 for this Reader.
	Limiter *Limiter
	// HeadBytes are asked for by Open; default 32 KiB, which holds the header of most files.
	HeadBytes int64
	// BlockBytes is what a smaller read is widened to, at multiples of it; default 16 KiB.
	BlockBytes int64
	// CacheBytes of what nobody holds any more are kept, what was used last; default 4 MiB.
	CacheBytes int64
}

// What lies between two pieces is fetched along with them where that is less than a request costs, at 20 ms and 100 MB/s some 2 MB; but since several are
// under way at once, and people pay by bytes, no more than maxGap at a time, and over the life of a Reader freeSlack and a slackShare-th of what was asked for.
const (
	maxGap     = 32 << 10
	freeSlack  = 16 << 10
	slackShare = 128
)

// maxRequest is the size from which on pieces are parted, to come by several connections: 4 MiB take 40 ms at 100 MB/s, twice what a far store's answer does.
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

// Limiter bounds requests. It may be shared by many Readers.
type Limiter struct{ places chan struct{} }

// NewLimiter returns a Limiter of n requests at once.
func NewLimiter(n int) *Limiter { return &Limiter{make(chan struct{}, max(1, n))} }

func (l *Limiter) enter(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Limiter) leave() { <-l.places }

// Counters are what a Reader has asked for.
type Counters struct {
	Requests int64 // repeated ones once
	Bytes    int64 // that came
}

// Reader reads one version of an object. All methods but Close may be called by many goroutines at once. It is a raster.Fetcher.
type Reader struct {
	o      Options
	src    objstore.Source
	name   string
	info   objstore.Info
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	store  pieces
	count  Counters
	queue  []*piece // to be asked for
	askers int      // goroutines that do so
}

// Open asks for the beginning of an object, and so for the version that it has now. ctx ends all requests of the Reader, later ones too. The caller
// closes the Reader. Errors are those of objstore.Retry.
func Open(ctx context.Context, src objstore.Source, name string, o *Options) (*Reader, error) {
	r := &Reader{o: o.withDefaults(), src: src, name: name}
	r.store.limit, r.store.slack = r.o.CacheBytes, freeSlack
	r.ctx, r.cancel = context.WithCancel(ctx)
	if err := r.head(); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// head reads the beginning.
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
		if !objstore.Same(version, info) {
			return &objstore.Error{Op: "reading", URL: r.src.ID(r.name), Err: objstore.ErrChanged}
		}
	}
	if info.Size < 0 {
		return fmt.Errorf("%s: its server does not say how large it is, so that it can't be read in pieces: fetch it first, with: leat stage get", r.src.ID(r.name))
	}
	if want := min(info.Size, r.o.HeadBytes); int64(len(data)) < want {
		return &objstore.Error{Op: "reading", URL: r.src.ID(r.name), Err: io.ErrUnexpectedEOF}
	}
	r.info = info
	r.count = Counters{Requests: 1, Bytes: int64(len(data))}
	if len(data) > 0 {
		p := &piece{at: 0, bytes: int64(len(data)), data: data, ready: make(chan struct{})}
		close(p.ready)
		r.store.put(p)
		r.store.idle(p)
	}
	return nil
}

// Info is the version that is read.
func (r *Reader) Info() objstore.Info { return r.info }

// Size is the object's, in bytes.
func (r *Reader) Size() int64 { return r.info.Size }

// ID names the object, without secrets.
func (r *Reader) ID() string { return r.src.ID(r.name) }

// Counters are what was asked for until now.
func (r *Reader) Counters() Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Close ends what is under way and waits for it. Readings that go on fail.
func (r *Reader) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store = pieces{}
	return nil
}

// ReadAt is io.ReaderAt's. Bytes that are neither here nor under way are asked for; a read that is smaller than a block brings its block.
func (r *Reader) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fmt.Errorf("reading %s from byte %d", r.ID(), at)
	}
	want := b
	if at >= r.info.Size {
		return 0, eofOf(b)
	} else if int64(len(b)) > r.info.Size-at {
		want = b[:r.info.Size-at]
	}
	held, err := r.take([]span{{at, int64(len(want))}}, true)
	if err != nil {
		return 0, err
	}
	defer r.give(held)
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

// take finds the pieces that cover the spans, which are ordered and apart, and asks for what is missing. The caller gives them back.
func (r *Reader) take(spans []span, widen bool) ([]*piece, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fs.ErrClosed
	}
	missing := r.store.missing(spans)
	if widen {
		missing = r.store.widen(missing, r.o.BlockBytes, r.info.Size)
	} else {
		missing = r.store.join(missing)
	}
	var wanted []*piece
	for _, s := range missing {
		for at := s.at; at < s.at+s.bytes; at += maxRequest {
			p := &piece{at: at, bytes: min(maxRequest, s.at+s.bytes-at), ready: make(chan struct{})}
			r.store.put(p)
			p.refs++ // the request's
			r.count.Requests++
			wanted = append(wanted, p)
		}
	}
	if widen { // somebody waits for them
		r.queue = append(wanted, r.queue...)
	} else {
		r.queue = append(r.queue, wanted...)
	}
	// There may be very many pieces, and no more of them are asked for at once than the Limiter lets.
	for range min(len(wanted), cap(r.o.Limiter.places)-r.askers) {
		r.askers++
		r.wg.Go(r.ask)
	}
	return r.store.hold(spans), nil
}

// ask asks for pieces until there is none to be asked for.
func (r *Reader) ask() {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.askers--
			r.mu.Unlock()
			return
		}
		p := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.mu.Unlock()
		r.bring(p)
	}
}

// give ends the use of pieces.
func (r *Reader) give(held []*piece) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range held {
		r.store.release(p)
	}
}

// bring makes the request for a piece.
func (r *Reader) bring(p *piece) {
	data, err := r.request(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.data, p.err = data, err
	if err != nil {
		r.store.drop(p) // the next who needs it tries again
	} else {
		r.count.Bytes += p.bytes
	}
	close(p.ready)
	r.store.release(p)
}

func (r *Reader) request(p *piece) ([]byte, error) {
	if err := r.o.Limiter.enter(r.ctx); err != nil {
		return nil, err
	}
	defer r.o.Limiter.leave()
	_, body, err := r.o.Retry.Read(r.ctx, r.src, r.name, p.at, p.bytes, &r.info)
	if err != nil {
		return nil, err
	}
	data := make([]byte, p.bytes)
	if _, err = io.ReadFull(body, data); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	if err == io.ErrUnexpectedEOF {
		err = &objstore.Error{Op: "reading", URL: r.ID(), Err: err}
	}
	return data, err
}
