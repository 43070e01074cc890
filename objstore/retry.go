package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"
)

// Retry says how often a request is made, and reads by several. The zero value has the defaults. It may be copied and used by many goroutines.
type Retry struct {
	Attempts int           // of one request, or in a row without a byte; default 5
	Base     time.Duration // the first pause is a random one up to this, each next one up to twice as long; default 100 ms
	Max      time.Duration // longest pause, also of those that a store asks for; default 30 s
	Stall    time.Duration // a request that gives no byte for so long is abandoned, and counts as failed; default 30 s
	OnRetry  func(err error)
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = 5
	}
	if r.Base <= 0 {
		r.Base = 100 * time.Millisecond
	}
	if r.Max <= 0 {
		r.Max = 30 * time.Second
	}
	if r.Stall <= 0 {
		r.Stall = 30 * time.Second
	}
	return r
}

// pause waits before attempt n, counted from 1, is followed by another; false: there is to be none, for err is final or ctx has ended.
func (r Retry) pause(ctx context.Context, n int, err error) bool {
	if n >= r.Attempts || ctx.Err() != nil || !Temporary(err) {
		return false
	}
	if r.OnRetry != nil {
		r.OnRetry(err)
	}
	top := min(r.Base, r.Max)
	for i := 1; i < n && top < r.Max; i++ {
		top = min(2*top, r.Max)
	}
	wait := time.Duration(rand.Int64N(int64(top) + 1))
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		wait = min(max(wait, e.RetryAfter), r.Max)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Do makes attempts at an operation, each of which is given the time Stall, as long as what they fail with may go away.
func (r Retry) Do(ctx context.Context, attempt func(ctx context.Context) error) error {
	r = r.withDefaults()
	for n := 1; ; n++ {
		one, cancel := context.WithTimeoutCause(ctx, r.Stall, ErrStalled)
		err := attempt(one)
		if err != nil && ctx.Err() == nil && errors.Is(context.Cause(one), ErrStalled) {
			stalled := &Error{Op: "waiting for", URL: "the store", Err: ErrStalled}
			var e *Error
			if errors.As(err, &e) {
				stalled.Op, stalled.URL = e.Op, e.URL
			}
			err = stalled
		}
		cancel()
		if err == nil || !r.pause(ctx, n, err) {
			return ctxFirst(ctx, err)
		}
	}
}

// Stat is Source.Stat with repeated attempts.
func (r Retry) Stat(ctx context.Context, src Source, name string) (info Info, err error) {
	err = r.Do(ctx, func(ctx context.Context) error {
		info, err = src.Stat(ctx, name)
		return err
	})
	return info, err
}

// Read is Source.Read with repeated attempts. It returns when the first answer has come; the body goes on by itself where a connection broke off or
// stalled, with the same version of the object, or fails with ErrChanged. Progress starts the count of attempts anew. Close the body; ctx ends it. A body
// that is in memory is an io.WriterTo.
func (r Retry) Read(ctx context.Context, src Source, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error) {
	b := &body{r: r.withDefaults(), ctx: ctx, src: src, name: name, at: offset, left: length, want: match}
	if err := b.open(); err != nil {
		return b.info, nil, err
	}
	if _, ok := b.now.(io.WriterTo); ok {
		return b.info, &memoryBody{b}, nil
	}
	return b.info, b, nil
}

// body reads on over several requests.
type body struct {
	r        Retry
	ctx      context.Context
	src      Source
	name     string
	at, left int64 // what is still to come; left -1: as much as there is
	want     *Info // the version; nil: the first answer decides
	info     Info  // of the first answer
	answered bool
	began    bool  // bytes were given
	sized    bool  // left is what there is, and not only as much as was asked for
	err      error // what every further Read gives
	failed   int   // attempts in a row without a byte
	now      io.ReadCloser
	watch    *watch
}

// open makes requests until one is answered.
func (b *body) open() error {
	for {
		ctx, w := newWatch(b.ctx, b.r.Stall)
		info, now, err := b.src.Read(ctx, b.name, b.at, b.left, b.want)
		if err == nil && changed(b.want, info) {
			now.Close()
			err = &Error{Op: "reading", URL: b.src.ID(b.name), Err: ErrChanged}
		}
		if err == nil {
			w.pause() // the time until it is read is not the store's
			b.now, b.watch = now, w
			b.first(info)
			return nil
		}
		err = b.cause(ctx, err)
		w.end()
		b.failed++
		if !b.r.pause(b.ctx, b.failed, err) {
			if !b.answered {
				b.info = info
			}
			return ctxFirst(b.ctx, err)
		}
	}
}

// first takes the version from the first answer, for all that follow.
func (b *body) first(info Info) {
	if b.answered {
		return
	}
	b.answered, b.info = true, info
	want := info
	if m := b.want; m != nil { // what the answer leaves out
		if want.ETag == "" {
			want.ETag = m.ETag
		}
		if want.ModTime.IsZero() {
			want.ModTime = m.ModTime
		}
		if want.Size < 0 {
			want.Size = m.Size
		}
	}
	b.want = &want
	if b.sized = info.Size >= 0; b.sized {
		if rest := max(0, info.Size-b.at); b.left < 0 || b.left > rest {
			b.left = rest
		}
	}
}

// Read reads on.
func (b *body) Read(p []byte) (int, error) {
	for {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.left == 0:
			b.err = b.end()
			continue
		case len(p) == 0:
			return 0, nil
		case b.now == nil:
			if b.err = b.open(); b.err != nil {
				continue
			}
		}
		b.watch.resume()
		n, err := b.now.Read(p)
		b.watch.pause()
		if n > 0 {
			b.failed, b.began = 0, true
			if b.err = b.took(int64(n)); b.err != nil {
				continue
			}
		}
		switch {
		case err == nil && n == 0: // it only skips what was read already
			continue
		case err == nil:
			return n, nil
		case err == io.EOF && (b.left <= 0 || !b.sized):
			b.err = io.EOF
			return n, io.EOF
		case err == io.EOF:
			err = &Error{Op: "reading", URL: b.src.ID(b.name), Err: io.ErrUnexpectedEOF}
		}
		err = b.named(b.cause(b.watch.ctx, err))
		b.stop()
		if b.began && !b.want.Versioned() { // what comes next might be of another version
			b.err = ctxFirst(b.ctx, err)
			return n, b.err
		}
		if n > 0 && Temporary(err) {
			return n, nil // the next Read goes on with another request
		}
		b.failed++
		if !b.r.pause(b.ctx, b.failed, err) {
			b.err = ctxFirst(b.ctx, err)
			return n, b.err
		}
	}
}

// end is what the source says at the end: nothing more, or that what came is not what was asked for.
func (b *body) end() error {
	if b.now == nil {
		return io.EOF
	}
	b.watch.resume()
	var more [1]byte
	n, err := b.now.Read(more[:])
	b.watch.pause()
	switch {
	case n > 0:
		return b.took(int64(n))
	case err == nil, err == io.EOF, Temporary(b.cause(b.watch.ctx, err)): // all is there
		return io.EOF
	}
	return ctxFirst(b.ctx, b.named(err))
}

// named is an error of a body that names the object.
func (b *body) named(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Op: "reading", URL: b.src.ID(b.name), Err: err}
}

// took counts bytes that have come.
func (b *body) took(n int64) error {
	b.at += n
	if b.left < 0 {
		return nil
	}
	if b.left -= n; b.left < 0 {
		b.left = 0
		return fmt.Errorf("objstore: %s gave more bytes than it was asked for", b.src.ID(b.name))
	}
	return nil
}

func (b *body) stop() {
	if b.now != nil {
		b.now.Close()
		b.watch.end()
		b.now, b.watch = nil, nil
	}
}

// Close ends the reading.
func (b *body) Close() error {
	b.stop()
	b.err = fs.ErrClosed
	return nil
}

// memoryBody is a body whose bytes are in memory already, and need not be copied on their way.
type memoryBody struct{ *body }

func (b *memoryBody) WriteTo(w io.Writer) (int64, error) {
	var n int64
	if wt, ok := b.now.(io.WriterTo); ok && b.left != 0 && b.err == nil {
		var err error
		if n, err = wt.WriteTo(w); err == nil {
			err = b.took(n)
		}
		if err != nil {
			return n, err
		}
	}
	if !b.sized {
		b.left = 0
	}
	if b.left == 0 && b.err == nil { // the usual end, without the memory that io.Copy takes to see it
		if b.err = b.end(); b.err != io.EOF {
			return n, b.err
		}
		return n, nil
	}
	rest, err := io.Copy(w, struct{ io.Reader }{b.body}) // where less came than was announced
	return n + rest, err
}

// cause is what ended an attempt: that the store stalled, where that is why its context ended.
func (b *body) cause(one context.Context, err error) error {
	if b.ctx.Err() == nil && errors.Is(context.Cause(one), ErrStalled) {
		return &Error{Op: "reading", URL: b.src.ID(b.name), Err: ErrStalled}
	}
	return err
}

// ctxFirst is the end of ctx where that is why an attempt failed.
func ctxFirst(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Stalled tells whether Retry has given up the attempt with this context since the store gave nothing. Where the network has forgotten the connection, so may it have
// those that wait for their next request: a driver closes them, rather than have each attempt find another such one.
func Stalled(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrStalled) }

// watch ends a context when nothing moves for too long.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  time.Duration
	timer  *time.Timer
}

func newWatch(ctx context.Context, stall time.Duration) (context.Context, *watch) {
	w := &watch{stall: stall}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(stall, func() { w.cancel(ErrStalled) })
	return w.ctx, w
}

func (w *watch) pause()  { w.timer.Stop() }
func (w *watch) resume() { w.timer.Reset(w.stall) }

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
