package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"

	"leat/internal/backoff"
)

// Retry repeats requests that failed for a reason that may pass. The zero value has the defaults.
// It may be copied and is safe for concurrent use.
//
// Requests of one Bucket share a rate of starts. When more than half of them end with a 429, a 503,
// or a refused connection from a server that had responded earlier, all of them start more slowly;
// responses raise the rate again.
type Retry struct {
	// Timeout is the longest time that a request or a body may go without progress. Default 1
	// minute.
	Timeout time.Duration
	// MaxAttempts is the maximum number of attempts without progress. Default: as many as Timeout
	// allows.
	MaxAttempts int
	// MinPause bounds the first pause, which is random; the bound doubles with each further pause.
	// Default 100 ms.
	MinPause time.Duration
	// MaxPause limits each pause, except one that the store asks for, which Timeout limits. Default
	// 5 s.
	MaxPause time.Duration
	// StallTimeout is the time without a byte after which an attempt has failed. Default 30 s; at
	// most Timeout if that is set.
	StallTimeout time.Duration
	// OnRetry, if not nil, is called with the error of each failed attempt that is repeated.
	OnRetry func(err error)
}

// firstAttempts limits the attempts to reach a server that never responded: its name or port may be
// wrong.
const firstAttempts = 5

func (r Retry) withDefaults() Retry {
	if r.StallTimeout <= 0 {
		r.StallTimeout = 30 * time.Second
	}
	if r.Timeout > 0 {
		r.StallTimeout = min(r.StallTimeout, r.Timeout)
	} else {
		r.Timeout = time.Minute
	}
	if r.MinPause <= 0 {
		r.MinPause = 100 * time.Millisecond
	}
	if r.MaxPause <= 0 {
		r.MaxPause = 5 * time.Second
	}
	return r
}

// tries counts the attempts at a request, or at the rest of a body, since it last made progress.
type tries struct {
	r       Retry
	pace    *pace
	failed  int
	since   time.Time // start of the first attempt without progress
	started time.Time // start of the last attempt
}

// begin waits until an attempt may start.
func (t *tries) begin(ctx context.Context) error {
	now := time.Now()
	if t.failed == 0 {
		t.since = now
	}
	progress, err := t.pace.enter(ctx, t.r.Timeout)
	t.started = time.Now()
	if progress { // the wait does not count: the server responded to other requests meanwhile
		t.since = t.since.Add(t.started.Sub(now))
	}
	return err
}

// progress resets the count of failures.
func (t *tries) progress() { t.failed = 0 }

// again waits before another attempt after err. It returns false if none may follow: err is
// permanent, the attempts or the time are used up, or ctx is done.
func (t *tries) again(ctx context.Context, err error) bool {
	t.failed++
	if ctx.Err() != nil || !Temporary(err) || t.r.MaxAttempts > 0 && t.failed >= t.r.MaxAttempts {
		return false
	}
	if t.failed >= firstAttempts && isUnreached(err) && !t.pace.isReached() {
		return false
	}
	var e *Error
	var asked time.Duration
	if errors.As(err, &e) {
		asked = e.RetryAfter
	}
	left := t.r.Timeout - time.Since(t.since)
	if left <= 0 || asked > left {
		return false
	}
	if isOverload(err) && t.pace.isReached() {
		t.pace.slow(t.started, asked, err, t.failed)
	}
	if t.r.OnRetry != nil {
		t.r.OnRetry(err)
	}
	top := min(t.r.MinPause, t.r.MaxPause)
	for i := 1; i < t.failed && top < t.r.MaxPause; i++ {
		top = min(2*top, t.r.MaxPause)
	}
	// The last attempt starts when the time is up.
	return backoff.Sleep(ctx, min(max(asked, rand.N(top+1)), left)) == nil
}

// Do calls attempt until it succeeds or its error is not temporary, within the limits of r. Each
// call gets a ctx that ends after StallTimeout.
func (r Retry) Do(ctx context.Context, attempt func(ctx context.Context) error) error {
	return r.do(ctx, &pace{}, attempt)
}

func (r Retry) do(ctx context.Context, p *pace, attempt func(ctx context.Context) error) error {
	r = r.withDefaults()
	t := tries{r: r, pace: p}
	for {
		if err := t.begin(ctx); err != nil {
			return err
		}
		one, cancel := context.WithTimeoutCause(ctx, r.StallTimeout, ErrStalled)
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
		p.note(err)
		if err == nil || !t.again(ctx, err) {
			return ctxFirst(ctx, err)
		}
	}
}

// Stat calls src.Stat, with retries.
func (r Retry) Stat(ctx context.Context, src Source, name string) (info Info, err error) {
	err = r.do(ctx, paceOf(src, &pace{}), func(ctx context.Context) error {
		info, err = src.Stat(ctx, name)
		return err
	})
	return info, err
}

// Read calls src.Read, with retries. It returns after the first response. After a broken or stalled
// connection, the body resumes automatically, with the same version of the object. It fails with
// ErrChanged if that version was replaced, and with ErrNotResumed if the version is not identified.
// The caller closes the body; cancelling ctx ends it. A body that is in memory is an io.WriterTo.
func (r Retry) Read(ctx context.Context, src Source, name string, offset, length int64, match *Info) (Info,
	io.ReadCloser, error) {
	r = r.withDefaults()
	b := &body{r: r, ctx: ctx, src: src, name: name, at: offset, left: length, want: match}
	b.tries = tries{r: r, pace: paceOf(src, &b.own)}
	if err := b.open(); err != nil {
		return b.info, nil, err
	}
	if _, ok := b.now.(io.WriterTo); ok {
		return b.info, (*memoryBody)(b), nil
	}
	return b.info, b, nil
}

// notResumed is the error of a body that broke off and can only be read again from the beginning.
type notResumed struct{ err error }

func (e *notResumed) Error() string        { return e.err.Error() }
func (e *notResumed) Unwrap() error        { return e.err }
func (e *notResumed) Is(target error) bool { return target == ErrNotResumed }

// body reads an object over several requests.
type body struct {
	r        Retry
	ctx      context.Context
	src      Source
	name     string
	at, left int64 // offset and length of what remains; left -1: up to the object's end
	want     *Info // the version; nil: that of the first response
	info     Info  // of the first response
	answered bool
	began    bool  // some bytes were returned
	sized    bool  // the object's size is known, and left is bounded by it
	err      error // returned by every later Read
	tries    tries
	own      pace // of a source that shares none
	now      io.ReadCloser
	watch    *watch
	version  Info // what want points to after the first response
}

// open sends requests until one succeeds.
func (b *body) open() error {
	for {
		if err := b.tries.begin(b.ctx); err != nil {
			return err
		}
		ctx, w := newWatch(b.ctx, b.r.StallTimeout)
		info, now, err := b.src.Read(ctx, b.name, b.at, b.left, b.want)
		if err == nil && changed(b.want, info) {
			now.Close()
			err = &Error{Op: "reading", URL: b.src.ID(b.name), Err: ErrChanged}
		}
		if err == nil {
			w.pause() // the time until the caller reads does not count
			b.tries.pace.note(nil)
			b.now, b.watch = now, w
			b.first(info)
			return nil
		}
		err = b.cause(ctx, err)
		w.end()
		b.tries.pace.note(err)
		if !b.tries.again(b.ctx, err) {
			if !b.answered {
				b.info = info
			}
			return ctxFirst(b.ctx, err)
		}
	}
}

// first records the version of the first response, which all later responses must have.
func (b *body) first(info Info) {
	if b.answered {
		return
	}
	b.answered, b.info = true, info
	want := &b.version
	*want = info
	if m := b.want; m != nil { // fill in what the response lacks
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
	b.want = want
	if b.sized = info.Size >= 0; b.sized {
		if rest := max(0, info.Size-b.at); b.left < 0 || b.left > rest {
			b.left = rest
		}
	}
}

// Read implements io.Reader.
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
		if b.tries.failed == 0 {
			b.tries.since = time.Now()
		}
		n, err := b.now.Read(p)
		b.watch.pause()
		if n > 0 {
			b.tries.progress()
			b.began = true
			if b.err = b.addReceived(int64(n)); b.err != nil {
				continue
			}
		}
		switch {
		case err == nil && n == 0: // a source that skips bytes reports progress this way
			continue
		case err == nil:
			return n, nil
		case err == io.EOF && (b.left <= 0 || !b.sized):
			b.err = io.EOF
			return n, io.EOF
		case err == io.EOF:
			err = &Error{Op: "reading", URL: b.src.ID(b.name), Err: io.ErrUnexpectedEOF}
		}
		err = b.wrapError(b.cause(b.watch.ctx, err))
		b.stop()
		if b.began && !b.want.Versioned() { // the rest might be of another version
			b.err = ctxFirst(b.ctx, &notResumed{err})
			return n, b.err
		}
		if n > 0 && Temporary(err) {
			return n, nil // the next Read sends another request
		}
		if !b.tries.again(b.ctx, err) {
			b.err = ctxFirst(b.ctx, err)
			return n, b.err
		}
	}
}

// end checks that the source ends where it should: it returns io.EOF, or an error if there are more
// bytes or the source found the object changed.
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
		return b.addReceived(int64(n))
	case err == nil, err == io.EOF, Temporary(b.cause(b.watch.ctx, err)): // all bytes have arrived
		return io.EOF
	}
	return ctxFirst(b.ctx, b.wrapError(err))
}

// wrapError wraps an error of a body with the object's name.
func (b *body) wrapError(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Op: "reading", URL: b.src.ID(b.name), Err: err}
}

// addReceived counts n bytes as received.
func (b *body) addReceived(n int64) error {
	b.at += n
	if b.left < 0 {
		return nil
	}
	if b.left -= n; b.left < 0 {
		b.left = 0
		return fmt.Errorf("%s sent more bytes than were requested", b.src.ID(b.name))
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

// Close implements io.Closer.
func (b *body) Close() error {
	b.stop()
	b.err = fs.ErrClosed
	return nil
}

// memoryBody is a body whose bytes are already in memory and can be written without a copy.
type memoryBody body

func (b *memoryBody) Read(p []byte) (int, error) { return (*body)(b).Read(p) }

func (b *memoryBody) Close() error { return (*body)(b).Close() }

func (b *memoryBody) WriteTo(w io.Writer) (int64, error) { return (*body)(b).writeTo(w) }

// writeTo writes what is left.
func (b *body) writeTo(w io.Writer) (int64, error) {
	var n int64
	if wt, ok := b.now.(io.WriterTo); ok && b.left != 0 && b.err == nil {
		var err error
		if n, err = wt.WriteTo(w); err == nil {
			err = b.addReceived(n)
		}
		if err != nil {
			return n, err
		}
	}
	if !b.sized {
		b.left = 0
	}
	if b.left == 0 && b.err == nil { // the usual case; io.Copy would allocate a buffer to find the end
		if b.err = b.end(); b.err != io.EOF {
			return n, b.err
		}
		return n, nil
	}
	rest, err := io.Copy(w, struct{ io.Reader }{b}) // the source ended early: resume
	return n + rest, err
}

// cause returns ErrStalled, with the object's name, if a stall ended the attempt's context, and
// else err.
func (b *body) cause(one context.Context, err error) error {
	if b.ctx.Err() == nil && errors.Is(context.Cause(one), ErrStalled) {
		return &Error{Op: "reading", URL: b.src.ID(b.name), Err: ErrStalled}
	}
	return err
}

// ctxFirst returns err, or the cause of ctx if err is not nil and ctx is done.
func ctxFirst(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch cancels a context after a time without progress.
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
