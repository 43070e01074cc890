package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

func TestShortNetworkFailure(t *testing.T) {
	k := newTaken()
	c := newTestCoordinator(t, testOptions(8, k))
	e := environmentOf(t, c, "tls", "test-0")
	p := newProxy(t, e.Endpoint.Addresses[0])
	e.Endpoint.Addresses = []string{p.Addr().String()}
	cut := make(chan struct{})
	w := startWorker(t, e, &plain{onCompute: func(_ context.Context, b int) error {
		if b == 3 {
			p.cut(true)
			close(cut)
		}
		return nil
	}})
	<-cut
	until(t, "more attempts than a limit on their number would allow", func() bool { return p.refused.Load() >= 18 })
	p.mu.Lock()
	p.deaf = false
	p.mu.Unlock()
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 8)
}

func TestLastWorkerExitAfterLastResult(t *testing.T) {
	k := newTaken()
	o := testOptions(1, k)
	in, goOn := make(chan struct{}), make(chan struct{})
	o.Accept = func(ctx context.Context, r *Result) error {
		close(in)
		<-goOn
		return k.accept(ctx, r)
	}
	c := newTestCoordinator(t, o)
	c.expect("test", 0, 1)
	e := environmentOf(t, c, "sockets", "test-0")
	w := startWorker(t, e, &plain{})
	<-in
	for _, conn := range e.Connections {
		_ = conn.Close()
	}
	until(t, "the loss", hasState(c, worker.StateLost))
	c.Exited(worker.Exit{Name: "test-0", Err: errors.New("killed")})
	c.expireMembers(time.Now().Add(time.Hour), 0)
	close(goOn)
	if err := waitRun(t, c); err != nil {
		t.Error(err)
	}
	_ = w.wait()
	k.check(t, 1)
}

func TestFullWorkerIsNotWoken(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.OnDemand = true
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = r.try(ctx, protocol.PathLease, strings.NewReader(`{"worker":0,"want":0,"held":[],"wait_ms":60000,"noted":0}`))
	})
	defer asking.Wait()
	defer cancel()
	until(t, "a waiting request for no block", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.members[0].turn != nil
	})
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{})
	until(t, "a waiting request", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.members) == 2 && c.members[1].turn != nil
	})
	c.Offer(0, nil)
	until(t, "the block", func() bool { return c.Status().Done == 1 })
	c.Offer(1, nil)
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 2)
}

func TestDuplicateResultWaitsForAccept(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	in, goOn := make(chan struct{}, 2), make(chan struct{})
	o.Accept = func(ctx context.Context, r *Result) error {
		in <- struct{}{}
		<-goOn
		return k.accept(ctx, r)
	}
	c := newTestCoordinator(t, o)
	r, other := newRaw(t, c), newRaw(t, c)
	r.join("raw-0")
	other.join("raw-1")
	l := r.lease(1)[0]
	body := resultOf(l.Block)
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		_, _ = r.try(t.Context(), protocol.PathResult, strings.NewReader(body), r.resultHeaderOf(l.Lease, l.Block,
			body)...)
	})
	<-in
	if a := other.result(l.Lease, l.Block, "x"); a.status != 409 || a.code() != "lease" && a.code() != "superseded" {
		t.Errorf("a result of another worker for this lease: %+v", a)
	}
	sending.Go(func() {
		a, err := r.try(t.Context(), protocol.PathResult, strings.NewReader(body), r.resultHeaderOf(l.Lease,
			l.Block, body)...)
		if err != nil || a.status != 200 || c.Status().Done != 1 {
			t.Errorf("the repeated result: %+v, %v, with %d blocks done", a, err, c.Status().Done)
		}
	})
	until(t, "two bodies", func() bool { return c.Status().BodyBytes == int64(2*len(body)) })
	close(goOn)
	sending.Wait()
	if len(in) != 0 {
		t.Error("the result was accepted twice")
	}
}

// A worker may reuse the memory of a result only after the answer, even if it was lost before.
func TestLostWorkerKeepsResult(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			const blocks = 4
			k := newTaken()
			o := testOptions(blocks, k)
			o.Workers, o.Holds = 2, func(int) int { return blocks }
			in, goOn := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			var results atomic.Int64
			o.Accept = func(ctx context.Context, r *Result) error {
				if results.Add(1) == 1 {
					close(in)
					<-goOn
				}
				return k.accept(ctx, r)
			}
			c := newTestCoordinator(t, o)
			defer release()
			var computed atomic.Int64
			lost := startWorker(t, environmentOf(t, c, transport, "test-0"), &plain{holds: blocks,
				onCompute: func(context.Context, int) error {
					computed.Add(1)
					return nil
				}})
			<-in
			c.Exited(worker.Exit{Name: "test-0"})
			if err := lost.wait(); !errors.Is(err, client.ErrLost) {
				t.Errorf("the lost worker: %v", err)
			}
			if n := computed.Load(); n != 1 {
				t.Errorf("it computed %d blocks in one slot while the run accepted the first", n)
			}
			startWorker(t, environmentOf(t, c, transport, "test-1"), &plain{})
			until(t, "the other blocks", func() bool { return c.Status().Done == blocks-1 })
			release()
			if err := waitRun(t, c); err != nil {
				t.Error(err)
			}
			k.check(t, blocks)
		})
	}
}

func TestPayloadSizeLimit(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.OnDemand = true
	c := newTestCoordinator(t, o)
	payload := json.RawMessage(`"` + strings.Repeat("<", protocol.MaxPayload-2) + `"`) // "<" is not escaped
	c.Offer(0, payload)
	c.Offer(1, payload)
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 2)

	c = newTestCoordinator(t, o)
	c.Offer(0, append(payload, ' '))
	if err := waitRun(t, c); err == nil || !strings.Contains(err.Error(), "block 0: payload has 8388609 bytes") {
		t.Errorf("%v", err)
	}
}

// The only connection for results is in use by a result that the run has not accepted yet.
func TestErrorDoesNotWaitForResults(t *testing.T) {
	for _, transport := range transports {
		o := testOptions(3, newTaken())
		o.Times.Heartbeat = 20 * time.Millisecond
		in := make(chan struct{})
		o.Accept = func(ctx context.Context, _ *Result) error {
			close(in)
			<-ctx.Done()
			return ctx.Err()
		}
		c := newTestCoordinator(t, o)
		e := environmentOf(t, c, transport, "test-0")
		startWorker(t, e, &plain{onRead: func(_ context.Context, l client.Lease) error {
			if l.Block == 0 {
				return nil
			}
			<-in
			return coded{}
		}})
		err := waitRun(t, c)
		var f *worker.Failure
		if !errors.As(err, &f) || f.Block != 1 || f.Code != "zero" {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

// The only connection for results is in use for a moment.
func TestErrorDoesNotWaitForHeartbeat(t *testing.T) {
	for _, transport := range transports {
		o := testOptions(3, newTaken())
		o.Times.Heartbeat, o.Times.HeartbeatTimeout = time.Hour, 3*time.Hour
		in, failing := make(chan struct{}), make(chan struct{})
		o.Accept = func(context.Context, *Result) error {
			close(in)
			<-failing
			time.Sleep(20 * time.Millisecond)
			return nil
		}
		c := newTestCoordinator(t, o)
		startWorker(t, environmentOf(t, c, transport, "test-0"), &plain{onRead: func(_ context.Context, l client.Lease) error {
			if l.Block == 0 {
				return nil
			}
			<-in
			close(failing)
			return coded{}
		}})
		err := waitRun(t, c)
		var f *worker.Failure
		if !errors.As(err, &f) || f.Block != 1 || f.Code != "zero" {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

func TestPanicInNotify(t *testing.T) {
	for _, transport := range transports {
		o := testOptions(3, newTaken())
		o.Note = func() json.RawMessage { return []byte("1") }
		c := newTestCoordinator(t, o)
		startWorker(t, environmentOf(t, c, transport, "test-0"),
			&plain{onNote: func(string) { panic("a note like this") }})
		err := waitRun(t, c)
		var f *worker.Failure
		if !errors.As(err, &f) || f.Block != -1 || f.Message != "panic: a note like this" || !strings.Contains(f.Stack,
			"delivery_test.go") {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

func TestPanicUnlocks(t *testing.T) {
	for what, lose := range map[string]func(c *Coordinator){
		"Gone": func(c *Coordinator) { c.Exited(worker.Exit{Name: "raw-0"}) },
		"look": func(c *Coordinator) { c.expireMembers(time.Now().Add(time.Hour), 0) },
		"apart": func(c *Coordinator) {
			c.disconnected(&connection{m: &member{local: true, state: worker.StateJoined, push: make(chan struct{},
				1)}})
		},
	} {
		c := newTestCoordinator(t, testOptions(1, newTaken()))
		r := newRaw(t, c)
		r.join("raw-0")
		c.mu.Lock()
		c.schedule.holders[0].leases = []*lease{nil}
		c.mu.Unlock()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			lose(c)
		}()
		if !c.mu.TryLock() {
			t.Errorf("%s: the lock is taken", what)
		}
		c.mu.Unlock()
	}
}

func TestPanicEndsRun(t *testing.T) {
	o := testOptions(1, newTaken())
	o.Released = func(int) { panic("no") }
	c := newTestCoordinator(t, o)
	c.release([]int{0})
	if err := waitRun(t, c); err == nil || !strings.Contains(err.Error(), "panic in Released: no") {
		t.Errorf("Released: %v", err)
	}
	c = newTestCoordinator(t, testOptions(1, newTaken()))
	r := newRaw(t, c)
	r.join("raw-0")
	c.mu.Lock()
	c.schedule.holders[0].leases = []*lease{nil}
	c.mu.Unlock()
	_, _ = r.try(t.Context(), protocol.PathLease, strings.NewReader(`{"worker":0,"want":1,"held":[]}`))
	if err := waitRun(t, c); err == nil || !strings.Contains(err.Error(), "panic in the coordinator") {
		t.Errorf("with the lock held: %v", err)
	}
}

func TestDialPastSilentAddresses(t *testing.T) {
	k := newTaken()
	c := newTestCoordinator(t, testOptions(1, k))
	e := environmentOf(t, c, "tls", "test-0")
	var silent []string
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		silent = append(silent, l.Addr().String())
	}
	e.Endpoint.Addresses = append(silent, e.Endpoint.Addresses...)
	w := startWorker(t, e, &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 1)
}

func TestHeartbeatAnsweredBeforeTimeout(t *testing.T) {
	o := testOptions(1, newTaken())
	o.Times = quick
	o.Times.Poll = patience
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	if a := r.post(protocol.PathHeartbeat, `{"worker":0,"wait_ms":60000}`); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

func TestMissingFieldsAreRefused(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	r := newRaw(t, c)
	r.join("raw-0")
	for _, x := range [][2]string{
		{protocol.PathLeave, `null`}, {protocol.PathLeave, ` {}`}, {protocol.PathLeave, `[]`}, {protocol.PathLeave, `{"worker":null}`},
		{protocol.PathHeartbeat, `{}`}, {protocol.PathLease, `{"want":1,"held":[]}`},
		{protocol.PathLease, `{"worker":0,"want":1}`}, {protocol.PathError, `{"lease":0,"block":-1,"message":"m"}`},
		{protocol.PathError, `{"worker":0,"lease":1,"message":"m"}`},
	} {
		if a := r.post(x[0], x[1]); a.status != 400 || a.code() != "malformed" {
			t.Errorf("%s %s: %+v", x[0], x[1], a)
		}
	}
	if s := statesOf(c); s[0] != worker.StateJoined || c.Status().Ended != "" {
		t.Errorf("%v", s)
	}
}
