package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"leat/internal/worker/protocol"
)

func TestLeaseSupersededBeforeArrival(t *testing.T) {
	w := &work{times: protocol.Times{}.OrDefaults(), connCtx: t.Context(), held: map[uint64]*item{},
		supersededEarly: map[uint64]bool{},
		limit:           3,
		todo:            make(chan *item, 3)}
	w.ctx, w.stop = context.WithCancelCause(t.Context())
	defer w.stop(nil)
	says := func(answer string) *conn {
		return newConn(nil, &scripted{r: strings.NewReader(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer))})
	}
	w.beats, w.leases = says(`{"superseded":[7]}`), says(`{"leases":[{"lease":7,"block":1},{"lease":8,"block":2}]}`)
	if err := errors.Join(w.beat(w.connCtx), w.lease(w.connCtx)); err != nil {
		t.Fatal(err)
	}
	if a, b := <-w.todo, <-w.todo; a.ctx.Err() == nil || b.ctx.Err() != nil || len(w.supersededEarly) != 0 {
		t.Errorf("lease 7: %v, lease 8: %v, %v", a.ctx.Err(), b.ctx.Err(), w.supersededEarly)
	}
}

// A lease request may be answered after the worker has returned its leases.
func TestLeaseAfterEndIsDropped(t *testing.T) {
	for _, over := range []bool{false, true} {
		const answer = `{"leases":[{"lease":7,"block":1}]}`
		w := &work{times: protocol.Times{}.OrDefaults(), connCtx: t.Context(), held: map[uint64]*item{}, limit: 2,
			todo: make(chan *item, 2)}
		w.ctx, w.stop = context.WithCancelCause(t.Context())
		w.leases = newConn(nil, &scripted{r: strings.NewReader(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer))})
		if over {
			w.stop(errors.New("closing"))
		}
		if err := w.lease(w.connCtx); err != nil {
			t.Fatal(err)
		}
		w.stop(nil)
		if n := len(w.todo); over != (n == 0) || over != (fmt.Sprint(w.dropped) == "[7]") ||
			over != (len(w.held) == 0) {
			t.Errorf("over: %v; %d to do, %v dropped, %v held", over, n, w.dropped, w.held)
		}
	}
}

func TestJoinDelay(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"slurm-0": 0, "slurm-1": 5 * time.Millisecond, "pbs-999": 4995 * time.Millisecond, "pbs-1000": 0, "laptop": 0,
		"a-b-40": 200 * time.Millisecond, "x-": 0,
	} {
		if d := joinDelay(name); d != want {
			t.Errorf("%s waits for %v, expected %v", name, d, want)
		}
	}
}

// FuzzAnswer sends arbitrary answers to a worker.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 410 Gone\r\nConnection: close\r\nContent-Length: 27\r\n\r\n{\"error\":\"e\",\"code\":\"lost\"}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		l := newConn(nil, &scripted{r: bytes.NewReader(answer)})
		b, err := l.call(t.Context(), protocol.PathLease, nil, [][]byte{[]byte("{}")}, 0, 1000)
		if err == nil && len(b) > 1000 {
			t.Fatalf("%d bytes", len(b))
		}
	})
}

func TestAnswerTooLong(t *testing.T) {
	l := newConn(nil, &scripted{r: strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")})
	if _, err := l.call(t.Context(), protocol.PathLease, nil, nil, 0, 10); !errors.Is(err, errAnswer) || !isFinal(err) {
		t.Errorf("an answer that is too long: %v", err)
	}
}

func TestEndCauses(t *testing.T) {
	for code, want := range map[string]error{"done": errDone, "ended": errEnded, "lost": ErrLost} {
		if got := endCause(&refusedError{status: 410, code: code, text: "the run has ended: done"}); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
}

// scripted is a connection with a fixed answer, whatever is sent.
type scripted struct {
	net.Conn
	r io.Reader
}

func (s *scripted) Read(b []byte) (int, error)  { return s.r.Read(b) }
func (s *scripted) Write(b []byte) (int, error) { return len(b), nil }
func (s *scripted) Close() error                { return nil }
func (s *scripted) SetDeadline(time.Time) error { return nil }
