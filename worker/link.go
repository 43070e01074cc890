package worker

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// link is a connection of a worker to its channel. One message at a time goes over it. It is made anew when it is broken, unless it was inherited.
type link struct {
	dialer *dialer // nil: inherited
	turn   chan struct{}

	conn   net.Conn
	reader *bufio.Reader
	head   []byte
}

// errLink is about a connection that is broken, and can't be made again.
var errLink = errors.New("the connection to the run has ended")

// errAnswer is about what the run says, which would be the same when it is asked again.
var errAnswer = errors.New("the run's answer can't be read")

// refusedError is an answer by which the channel refused a message.
type refusedError struct {
	status     int
	code, text string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the run refused it (%d): %s", e.status, e.text)
}

func refusedWith(err error, code string) bool {
	var r *refusedError
	return errors.As(err, &r) && r.code == code
}

func newLink(d *dialer, inherited net.Conn) *link {
	l := &link{dialer: d, turn: make(chan struct{}, 1)}
	if inherited != nil {
		l.conn, l.reader = inherited, bufio.NewReader(inherited)
	}
	return l
}

// errPins: no address leads to the channel of the invitation.
var errPins = errors.New("what listens there is not the run that has invited this worker")

// dialer makes connections to the channel of an invitation.
type dialer struct {
	invitation Invitation
	config     *tls.Config
	patience   time.Duration // for one address

	mu   sync.Mutex
	good int // the address that was reached last
}

// stagger is the pause after which the next address is tried beside those that have not answered.
const stagger = 250 * time.Millisecond

// dial tries all addresses, first the one that was reached before, and takes the first that answers. Those that are silent hold it up for stagger each. Nothing but the
// handshake has been sent when it returns.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	first := d.good
	d.mu.Unlock()
	type answer struct {
		address int
		conn    net.Conn
		err     error
	}
	n := len(d.invitation.Addresses)
	answers := make(chan answer, n)
	dialing, cancel := context.WithCancel(ctx)
	defer cancel()
	pause := min(stagger, max(d.patience/time.Duration(n), time.Millisecond)) // many addresses have their turn in time too
	next := time.NewTicker(pause)
	defer next.Stop()
	tried, open := 0, 0
	try := func() {
		i := (first + tried) % n
		tried++
		open++
		go func() {
			conn, err := d.dialOne(dialing, d.invitation.Addresses[i])
			answers <- answer{i, conn, err}
		}()
	}
	try()
	var conn net.Conn
	var errs []error
	pins := 0
	for open > 0 {
		select {
		case a := <-answers:
			open--
			switch {
			case a.err == nil && conn != nil:
				_ = a.conn.Close()
			case a.err == nil:
				conn = a.conn
				d.mu.Lock()
				d.good = a.address
				d.mu.Unlock()
				cancel()
			default:
				if errors.Is(a.err, errPin) {
					pins++
				}
				errs = append(errs, fmt.Errorf("%s: %w", d.invitation.Addresses[a.address], a.err))
				if tried < n && dialing.Err() == nil {
					try()
					next.Reset(pause)
				}
			}
		case <-next.C:
			if tried < n && dialing.Err() == nil {
				try()
			}
		}
	}
	if conn != nil {
		return conn, nil
	}
	if pins == n {
		errs = append(errs, errPins)
	}
	return nil, errors.Join(errs...)
}

func (d *dialer) dialOne(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	t := tls.Client(conn, d.config)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return t, nil
}

// close ends the link, after the message under way. It can't be used any more.
func (l *link) close() {
	l.turn <- struct{}{}
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// Pauses between tries.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// rest waits before another try, longer each time.
func rest(ctx context.Context, pause *time.Duration) {
	t := time.NewTimer(*pause/2 + rand.N(*pause/2)) // a thousand workers should not try at once
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	*pause = min(2**pause, lastPause)
}

// final tells that trying again won't help.
func final(err error) bool {
	var no *refusedError
	return errors.As(err, &no) || errors.Is(err, errLink) || errors.Is(err, errPins) || errors.Is(err, errAnswer)
}

// retry calls f until it succeeds, has an error that is final, or ctx ends.
func (l *link) retry(ctx context.Context, f func(context.Context) error) error {
	for pause := firstPause; ; rest(ctx, &pause) {
		if err := f(ctx); err == nil || final(err) || ctx.Err() != nil {
			return err
		}
	}
}

// field of a header.
type field struct{ name, value string }

// call sends a message and reads its answer, which it decodes into answer unless that is nil. Once ctx ends it fails, and the link is broken. Calls of several goroutines
// wait for each other. wait is how long the channel may take with its answer; 0: for ever.
func (l *link) call(ctx context.Context, path string, fields []field, body [][]byte, wait time.Duration, limit int64) ([]byte, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if l.conn == nil {
		if l.dialer == nil {
			return nil, errLink
		}
		dialing, cancel := ctx, context.CancelFunc(func() {})
		if wait > 0 {
			dialing, cancel = context.WithTimeout(ctx, wait)
		}
		conn, err := l.dialer.dial(dialing)
		cancel()
		if err != nil {
			return nil, err
		}
		if l.reader == nil {
			l.reader = bufio.NewReader(conn)
		} else {
			l.reader.Reset(conn)
		}
		l.conn = conn
	}
	conn := l.conn
	_ = conn.SetDeadline(time.Time{})
	over := func() { _ = conn.SetDeadline(time.Unix(1, 0)) }
	stop := context.AfterFunc(ctx, over)
	inTime := func() bool { return true }
	if wait > 0 {
		inTime = newLapse(wait, over).stop
	}
	answer, status, err := l.exchange(path, fields, body, limit)
	if !inTime() && err == nil {
		err = os.ErrDeadlineExceeded // which may be set at any moment
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		l.conn = nil
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if l.dialer == nil {
			return nil, fmt.Errorf("%w: %w", errLink, err)
		}
		return nil, err
	}
	if status == http.StatusOK {
		return answer, nil
	}
	no, err := decode[refusal](answer)
	if err != nil {
		return nil, fmt.Errorf("%w: status %d, and not in words of the protocol", errAnswer, status)
	}
	return nil, &refusedError{status, no.Code, no.Error}
}

func (l *link) exchange(path string, fields []field, body [][]byte, limit int64) (answer []byte, status int, err error) {
	var n int64
	for _, b := range body {
		n += int64(len(b))
	}
	h := append(l.head[:0], "POST "...)
	h = append(h, path...)
	h = append(h, " HTTP/1.1\r\nHost: leat\r\n"...)
	if l.dialer != nil {
		h = append(append(append(h, "Authorization: Bearer "...), l.dialer.invitation.Token...), "\r\n"...)
	}
	for _, f := range fields {
		h = append(append(append(append(h, f.name...), ": "...), f.value...), "\r\n"...)
	}
	h = strconv.AppendInt(append(h, "Content-Length: "...), n, 10)
	h = append(h, "\r\n\r\n"...)
	if n <= 4<<10 { // one record, one packet
		for _, b := range body {
			h = append(h, b...)
		}
		body = nil
	}
	l.head = h
	if l.dialer != nil {
		// TLS has no vectored write.
		for _, b := range append([][]byte{h}, body...) {
			if _, err := l.conn.Write(b); err != nil {
				return nil, 0, err
			}
		}
	} else {
		buffers := append(net.Buffers{h}, body...)
		if _, err := buffers.WriteTo(l.conn); err != nil {
			return nil, 0, err
		}
	}
	r, err := http.ReadResponse(l.reader, postRequest)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	if r.ContentLength < 0 || r.ContentLength > limit {
		return nil, 0, fmt.Errorf("%w: it has %d bytes, where at most %d are taken", errAnswer, r.ContentLength, limit)
	}
	answer = make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, answer); err != nil {
		return nil, 0, err
	}
	if r.Close {
		if l.dialer == nil && r.StatusCode == http.StatusOK {
			return nil, 0, errLink
		}
		_ = l.conn.Close()
		l.conn = nil
	}
	return answer, r.StatusCode, nil
}

// postRequest tells http.ReadResponse what was asked.
var postRequest = &http.Request{Method: http.MethodPost}

// tell sends a message of JSON, and reads its answer.
func tell[A any, P checker[A]](ctx context.Context, l *link, path string, message any, wait time.Duration, limit int64) (a A, err error) {
	b, err := encode(message)
	if err != nil {
		return a, err
	}
	answer, err := l.call(ctx, path, []field{{"Content-Type", "application/json"}}, [][]byte{b}, wait, limit)
	if err != nil {
		return a, err
	}
	if a, err = decode[A, P](answer); err != nil {
		return a, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return a, nil
}

// empty is the answer that says nothing.
type empty struct{}

func (*empty) check() error { return nil }
