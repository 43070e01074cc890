package client

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

	"leat/internal/worker/protocol"
	"leat/worker"
)

// conn is a worker's connection to the coordinator. It carries one message at a time and is dialed
// again when broken, unless it was inherited.
type conn struct {
	dialer *dialer // nil: inherited
	turn   chan struct{}

	conn   net.Conn
	reader *bufio.Reader
	head   []byte
}

// ErrDisconnected means that a connection is broken and can't be dialed again.
var ErrDisconnected = errors.New("connection to the coordinator lost")

// errAnswer means that an answer is malformed; a retry would give the same answer.
var errAnswer = errors.New("malformed answer of the coordinator")

// refusedError is an answer that refuses a message.
type refusedError struct {
	status     int
	code, text string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("refused by the coordinator (%d): %s", e.status, e.text)
}

func refusedWith(err error, code string) bool {
	var r *refusedError
	return errors.As(err, &r) && r.code == code
}

func newConn(d *dialer, inherited net.Conn) *conn {
	l := &conn{dialer: d, turn: make(chan struct{}, 1)}
	if inherited != nil {
		l.conn, l.reader = inherited, bufio.NewReader(inherited)
	}
	return l
}

// errPins means that no address has a server with the endpoint's key.
var errPins = errors.New("no address has a server with the endpoint's key")

// dialer connects to the addresses of an endpoint.
type dialer struct {
	endpoint worker.Endpoint
	config   *tls.Config
	// timeout bounds the TCP connect, and handshake the TLS handshake, which has to queue on a busy
	// coordinator.
	timeout, handshake time.Duration

	mu      sync.Mutex
	good    int       // index of the address that last worked
	reached time.Time // when a TCP connect last succeeded; zero: never
}

// lastReached returns the time of the last successful TCP connect.
func (d *dialer) lastReached() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reached
}

// stagger is the pause before the next address is tried while earlier ones have not answered.
const stagger = 250 * time.Millisecond

// dial connects to the first address that answers, beginning with the one that last worked. Each
// silent address delays the next by stagger. Only the handshake has been sent when dial returns.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	first := d.good
	d.mu.Unlock()
	type answer struct {
		address int
		conn    net.Conn
		err     error
	}
	n := len(d.endpoint.Addresses)
	answers := make(chan answer, n)
	dialing, cancel := context.WithCancel(ctx)
	defer cancel()
	// with many addresses, still try all of them within the timeout
	pause := min(stagger, max(d.timeout/time.Duration(n), time.Millisecond))
	next := time.NewTicker(pause)
	defer next.Stop()
	tried, open := 0, 0
	try := func() {
		i := (first + tried) % n
		tried++
		open++
		go func() {
			conn, err := d.dialOne(dialing, d.endpoint.Addresses[i])
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
				if errors.Is(a.err, ErrWrongKey) {
					pins++
				}
				errs = append(errs, fmt.Errorf("%s: %w", d.endpoint.Addresses[a.address], a.err))
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
	conn, err := (&net.Dialer{Timeout: d.timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.reached = time.Now()
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, d.handshake)
	defer cancel()
	t := tls.Client(conn, d.config)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return t, nil
}

// close waits for the message in progress and closes the connection for good.
func (l *conn) close() {
	l.turn <- struct{}{}
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// Pauses between retries; those before joining grow longer.
const (
	firstPause    = 20 * time.Millisecond
	lastPause     = time.Second
	lastJoinPause = 5 * time.Second
)

// backOff waits before a retry and doubles the pause up to longest.
func backOff(ctx context.Context, pause *time.Duration, longest time.Duration) {
	pauseFor(ctx, *pause/2+rand.N(*pause/2)) // spread the retries of many workers
	*pause = min(2**pause, longest)
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// isFinal reports whether a retry can't succeed.
func isFinal(err error) bool {
	var no *refusedError
	return errors.As(err, &no) || errors.Is(err, ErrDisconnected) || errors.Is(err, errPins) ||
		errors.Is(err, errAnswer)
}

// retry calls f until it succeeds, its error is final, or ctx ends.
func (l *conn) retry(ctx context.Context, f func(context.Context) error) error {
	for pause := firstPause; ; backOff(ctx, &pause, lastPause) {
		if err := f(ctx); err == nil || isFinal(err) || ctx.Err() != nil {
			return err
		}
	}
}

// field is a header field.
type field struct{ name, value string }

// call sends a message and returns the body of its answer. When ctx ends, or no answer has arrived
// after wait (0: no limit), it fails and the connection is closed. Concurrent calls queue.
func (l *conn) call(ctx context.Context, path string, fields []field, body [][]byte, wait time.Duration,
	limit int64) ([]byte, error) {
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
			return nil, ErrDisconnected
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
		inTime = newActiveTimer(wait, over).stop
	}
	answer, status, err := l.exchange(path, fields, body, limit)
	if !inTime() && err == nil {
		err = os.ErrDeadlineExceeded // the deadline may take effect at any moment
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
			return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
		}
		return nil, err
	}
	if status == http.StatusOK {
		return answer, nil
	}
	no, err := protocol.Decode[protocol.Refusal](answer)
	if err != nil {
		return nil, fmt.Errorf("%w: status %d without a refusal", errAnswer, status)
	}
	return nil, &refusedError{status, no.Code, no.Error}
}

func (l *conn) exchange(path string, fields []field, body [][]byte, limit int64) (answer []byte, status int,
	err error) {
	var n int64
	for _, b := range body {
		n += int64(len(b))
	}
	h := append(l.head[:0], "POST "...)
	h = append(h, path...)
	h = append(h, " HTTP/1.1\r\nHost: leat\r\n"...)
	if l.dialer != nil {
		h = append(append(append(h, "Authorization: Bearer "...), l.dialer.endpoint.Token...), "\r\n"...)
	}
	for _, f := range fields {
		h = append(append(append(append(h, f.name...), ": "...), f.value...), "\r\n"...)
	}
	h = strconv.AppendInt(append(h, "Content-Length: "...), n, 10)
	h = append(h, "\r\n\r\n"...)
	if n <= 4<<10 { // send a short message in one packet
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
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d are allowed", errAnswer, r.ContentLength, limit)
	}
	answer = make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, answer); err != nil {
		return nil, 0, err
	}
	if r.Close {
		if l.dialer == nil && r.StatusCode == http.StatusOK {
			return nil, 0, ErrDisconnected
		}
		_ = l.conn.Close()
		l.conn = nil
	}
	return answer, r.StatusCode, nil
}

// postRequest is the request that http.ReadResponse needs to parse an answer.
var postRequest = &http.Request{Method: http.MethodPost}

// post sends a JSON message and decodes its answer.
func post[A any, P protocol.Message[A]](ctx context.Context, l *conn, path string, message any, wait time.Duration,
	limit int64) (a A, err error) {
	b, err := protocol.Encode(message)
	if err != nil {
		return a, err
	}
	answer, err := l.call(ctx, path, []field{{"Content-Type", "application/json"}}, [][]byte{b}, wait, limit)
	if err != nil {
		return a, err
	}
	if a, err = protocol.Decode[A, P](answer); err != nil {
		return a, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return a, nil
}
