package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	top := min(r.Base<<min(n-1, 20), r.Max)
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

// Stat is Source.Stat with repeated attempts.
func (r Retry) Stat(ctx context.Context, src Source, name string) (Info, error) {
	r = r.withDefaults()
	for n := 1; ; n++ {
		one, cancel := context.WithTimeoutCause(ctx, r.Stall, ErrStalled)
		info, err := src.Stat(one, name)
		err = cause(ctx, one, err, "looking up", src, name)
		cancel()
		if err == nil || !r.pause(ctx, n, err) {
			return info, ctxFirst(ctx, err)
		}
	}
}

// Read is Source.Read with repeated attempts. It returns when the first answer has come; the body goes on by itself where a connection broke off or
// stalled, with the same version of the object, or fails with ErrChanged. Progress starts the count of attempts anew. Close the body.
func (r Retry) Read(ctx context.Context, src Source, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error) {
	b := &body{r: r.withDefaults(), ctx: ctx, src: src, name: name, at: offset, left: length, match: match}
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
	at, left int64 // what is still to come; left -1: all
	match    *Info
	info     Info
	failed   int // attempts in a row without a byte
	now      io.ReadCloser
	watch    *watch
}

// open makes requests until one is answered.
func (b *body) open() error {
	for {
		ctx, w := newWatch(b.ctx, b.r.Stall)
		info, now, err := b.src.Read(ctx, b.name, b.at, b.left, b.match)
		if err == nil && b.match != nil && b.info.Name != "" && info.Size >= 0 && b.match.Size >= 0 && info.Size != b.match.Size {
			now.Close()
			err = &Error{Op: "reading", URL: b.src.ID(b.name), Err: ErrChanged}
		}
		if err == nil {
			if b.match == nil {
				b.match = &info
			}
			b.info, b.now, b.watch = info, now, w
			w.pause() // the time until it is read is not the store's
			return nil
		}
		err = cause(b.ctx, ctx, err, "reading", b.src, b.name)
		w.end()
		b.failed++
		if !b.r.pause(b.ctx, b.failed, err) {
			b.info = info
			return ctxFirst(b.ctx, err)
		}
	}
}

// Read reads on.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 || len(p) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		return 0, nil
	}
	for {
		if b.now == nil {
			if err := b.open(); err != nil {
				return 0, err
			}
		}
		b.watch.resume()
		n, err := b.now.Read(p)
		b.watch.pause()
		if n > 0 {
			b.failed = 0
			b.at += int64(n)
			if b.left > 0 {
				if b.left -= int64(n); b.left < 0 {
					return 0, fmt.Errorf("%s gave more bytes than it was asked for", b.src.ID(b.name))
				}
			}
		}
		switch {
		case err == nil, err == io.EOF:
			return n, err
		}
		err = cause(b.ctx, b.watch.ctx, err, "reading", b.src, b.name)
		b.stop()
		if n > 0 {
			return n, nil // the next Read goes on with another request
		}
		b.failed++
		if !b.r.pause(b.ctx, b.failed, err) {
			return 0, ctxFirst(b.ctx, err)
		}
	}
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
	b.left = 0
	return nil
}

// memoryBody is a body whose bytes are in memory already, and need not be copied on their way.
type memoryBody struct{ *body }

func (b *memoryBody) WriteTo(w io.Writer) (int64, error) {
	wt, ok := b.now.(io.WriterTo)
	if !ok {
		return io.Copy(w, struct{ io.Reader }{b.body})
	}
	n, err := wt.WriteTo(w)
	b.at += n
	if b.left > 0 {
		b.left = max(0, b.left-n)
	}
	return n, err
}

// cause is what ended an attempt: that the store stalled, where that is why its context ended.
func cause(outer, one context.Context, err error, op string, src Source, name string) error {
	if err != nil && outer.Err() == nil && errors.Is(context.Cause(one), ErrStalled) {
		return &Error{Op: op, URL: src.ID(name), Err: ErrStalled}
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
