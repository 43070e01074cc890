package coordinator

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

func TestHeartbeatTimeoutReissuesBlocks(t *testing.T) {
	k := newTaken()
	o := testOptions(4, k)
	o.Workers, o.NoCopies, o.Times = 2, true, quick
	o.Times.HeartbeatTimeout, o.Times.Rejoin = 3*time.Second, patience
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	// Its connections stay open, as those of a stopped process.
	hold := r.dial()
	defer hold.Close()
	held := r.lease(2)
	if len(held) != 2 {
		t.Fatalf("%d leases", len(held))
	}
	w := startWorker(t, environmentOf(t, c, "tls", "test-0"), &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 4)
	s := c.Status()
	if s.LostWorkers != 1 || s.Reissued != 2 || s.Workers[0].State != worker.StateLost || len(s.Workers[0].Held) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestLateMessagesOfLostWorker(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.Workers, o.Times = 2, quick
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	l := r.lease(1)[0]
	until(t, "the loss", hasState(c, worker.StateLost))
	for path, body := range map[string]string{
		protocol.PathLease: `{"worker":0,"want":1,"held":[]}`, protocol.PathHeartbeat: `{"worker":0}`, protocol.PathLeave: `{"worker":0}`,
		protocol.PathError: `{"worker":0,"lease":1,"block":0,"message":"m"}`,
	} {
		if a := r.post(path, body); a.status != 410 || a.code() != "lost" {
			t.Errorf("%s: %+v", path, a)
		}
	}
	if a := r.result(l.Lease, l.Block, resultOf(l.Block)); a.status != 410 || a.code() != "lost" {
		t.Errorf("result: %+v", a)
	}
	k.check(t, 0)
}

// A worker that was lost while its machine slept ends when the machine wakes.
func TestLostWorkerEnds(t *testing.T) {
	for _, transport := range transports {
		k := newTaken()
		o := testOptions(1, k)
		o.Workers = 2
		c := newTestCoordinator(t, o)
		begun := make(chan struct{})
		w := startWorker(t, environmentOf(t, c, transport, "test-0"),
			&plain{onCompute: func(ctx context.Context, _ int) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			}})
		<-begun
		c.mu.Lock()
		c.markLost(c.members[0], "by the test", time.Now())
		c.mu.Unlock()
		if err := w.wait(); !errors.Is(err, client.ErrLost) {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

func TestLostAfterRejoinTimeout(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.Workers = 2
	o.Times.Rejoin = quick.Rejoin
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	if n := len(r.lease(1)); n != 1 {
		t.Fatalf("%d leases", n)
	}
	r.client.CloseIdleConnections()
	until(t, "the loss", hasState(c, worker.StateLost))
	if s := c.Status(); s.Held != 0 || s.Waiting != 2 || s.Reissued != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLocalWorkerLostOnDisconnect(t *testing.T) {
	o := testOptions(2, newTaken())
	o.Workers = 2
	c := newTestCoordinator(t, o)
	e := environmentOf(t, c, "sockets", "test-0")
	begun := make(chan struct{})
	var once sync.Once
	w := startWorker(t, e, &plain{onCompute: func(ctx context.Context, _ int) error {
		once.Do(func() { close(begun) })
		<-ctx.Done()
		return ctx.Err()
	}})
	<-begun
	_ = e.Connections[0].Close()
	until(t, "the loss", hasState(c, worker.StateLost))
	if err := w.wait(); !errors.Is(err, client.ErrDisconnected) && !errors.Is(err, client.ErrLost) {
		t.Errorf("%v", err)
	}
}

// proxy forwards connections of workers to a coordinator, and can cut them.
type proxy struct {
	refused atomic.Int64
	net.Listener
	to    string
	mu    sync.Mutex
	conns []net.Conn
	deaf  bool
	left  int // connections that it forwards before it holds further ones; 0: all
	wg    sync.WaitGroup
}

// limit makes the proxy forward n connections and hold all others.
func (p *proxy) limit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n + 1
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(true)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		from, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.left == 1 {
			p.conns = append(p.conns, from)
			p.mu.Unlock()
			continue
		}
		p.left = max(p.left-1, 0)
		p.mu.Unlock()
		to, err := net.Dial("tcp", p.to)
		p.mu.Lock()
		refuse := err != nil || p.deaf
		if !refuse {
			p.conns = append(p.conns, from, to)
		}
		p.mu.Unlock()
		if refuse {
			p.refused.Add(1)
			_ = from.Close()
			if to != nil {
				_ = to.Close()
			}
			continue
		}
		for _, d := range [][2]net.Conn{{from, to}, {to, from}} {
			p.wg.Go(func() {
				b := make([]byte, 4096)
				for {
					n, err := d[0].Read(b)
					if n > 0 {
						_, err = d[1].Write(b[:n])
					}
					if err != nil {
						_ = d[0].Close()
						_ = d[1].Close()
						return
					}
				}
			})
		}
	}
}

// cut closes all connections. If forGood is set, new ones are refused.
func (p *proxy) cut(forGood bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = forGood
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func TestReconnect(t *testing.T) {
	k := newTaken()
	o := testOptions(300, k)
	c := newTestCoordinator(t, o)
	e := environmentOf(t, c, "tls", "test-0")
	p := newProxy(t, e.Endpoint.Addresses[0])
	e.Endpoint.Addresses = []string{p.Addr().String()}
	e.Slots = 2
	var n atomic.Int64
	w := startWorker(t, e, &plain{onCompute: func(context.Context, int) error {
		if n.Add(1)%40 == 0 {
			p.cut(false)
		}
		return nil
	}})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 300)
	if s := c.Status(); s.LostWorkers != 0 || len(s.Workers) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWorkerEndsWithoutCoordinator(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			o := testOptions(1, newTaken())
			o.Times = quick // bounds the worker's wait for an answer
			c := newTestCoordinator(t, o)
			e := environmentOf(t, c, transport, "test-0")
			var p *proxy
			if transport == "tls" {
				p = newProxy(t, e.Endpoint.Addresses[0])
				e.Endpoint.Addresses = []string{p.Addr().String()}
			}
			begun := make(chan struct{})
			f := &plain{onCompute: func(ctx context.Context, _ int) error {
				close(begun)
				<-ctx.Done()
				return nil
			}}
			w := startWorker(t, e, f)
			<-begun
			if p != nil {
				_ = p.Close()
				p.cut(true)
			} else {
				// As if the run was killed: its ends of the sockets are closed.
				_ = c.local.Close()
			}
			// One of several connections may still be open and report that the worker was lost
			// because of the others.
			err := w.wait()
			if !errors.Is(err, client.ErrDisconnected) && !errors.Is(err, client.ErrLost) || p != nil &&
				!strings.Contains(err.Error(),
					"connection refused") || strings.Contains(err.Error(), "deadline") {
				t.Errorf("%v", err)
			}
			if !f.closed {
				t.Error("the handler was not closed")
			}
		})
	}
}

// A worker ends even if its function ignores its context.
func TestWorkerEndsWithHangingFunction(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	begun, finish := make(chan struct{}), make(chan struct{})
	f := &plain{onCompute: func(context.Context, int) error {
		close(begun)
		<-finish
		return nil
	}}
	w := startHasty(t, environmentOf(t, c, "sockets", "test-0"), f)
	<-begun
	_ = c.local.Close()
	if err := w.wait(); !errors.Is(err, client.ErrDisconnected) && !errors.Is(err, client.ErrLost) {
		t.Errorf("%v", err)
	}
	if f.closed {
		t.Error("the handler was closed while its function ran")
	}
	close(finish)
}

func TestRepeatedJoinIsSameWorker(t *testing.T) {
	o := testOptions(4, newTaken())
	o.Workers, o.Barrier = 2, time.Hour
	c := newTestCoordinator(t, o)
	first, again := newRaw(t, c), newRaw(t, c)
	first.join("raw-0")
	again.join("raw-0")
	if n := len(again.lease(1)); again.worker != first.worker || n != 0 || len(c.Status().Workers) != 1 {
		t.Errorf("workers %d and %d; %d blocks before the barrier; %+v", first.worker, again.worker, n, statesOf(c))
	}
	again.join("raw-1")
	if n := len(again.lease(1)); n != 1 {
		t.Errorf("%d blocks at the barrier", n)
	}
	// A worker that has a block is a new one: its job was restarted.
	first.join("raw-1")
	if first.worker != 2 {
		t.Errorf("worker %d", first.worker)
	}
}

func TestFailedListenerIsLogged(t *testing.T) {
	o := testOptions(1, newTaken())
	log := &lines{}
	o.Logger = log.logger()
	c := newTestCoordinator(t, o)
	listen(t, c)
	_ = c.listen[0].Close()
	until(t, "the warning", func() bool { return log.warnings() == 1 })
	_ = listen(t, c)
	if err := c.Close(); err != nil || log.warnings() != 1 {
		t.Errorf("%v; %q", err, log.all)
	}
}

func TestJoinTimeout(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	e := environmentOf(t, c, "tls", "test-0")
	e.Endpoint.Addresses = []string{"127.0.0.1:1"}
	err := startHasty(t, e, &plain{}).wait()
	if !errors.Is(err, client.ErrDisconnected) || !strings.Contains(err.Error(), "no address accepted") || !strings.Contains(err.Error(),
		"connection refused") {
		t.Errorf("%v", err)
	}
}

// A listener that accepts connections but does not answer may belong to a busy run.
func TestJoinRetriesWhileListenerExists(t *testing.T) {
	k := newTaken()
	c := newTestCoordinator(t, testOptions(1, k))
	e := environmentOf(t, c, "tls", "test-0")
	p := newProxy(t, e.Endpoint.Addresses[0])
	p.cut(true)
	e.Endpoint.Addresses = []string{p.Addr().String()}
	o := workOptions(e, &plain{})
	o.Times = quick
	o.Times.HeartbeatTimeout = 50 * time.Millisecond
	w := startWork(t, o, &plain{})
	until(t, "attempts", func() bool { return p.refused.Load() > 3 })
	time.Sleep(5 * o.Times.HeartbeatTimeout)
	p.cut(false)
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 1)
}

func TestLateJoinAndEarlyLeave(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			k := newTaken()
			o := testOptions(60, k)
			o.Workers = 2
			c := newTestCoordinator(t, o)
			enough := make(chan struct{})
			var n atomic.Int64
			early := startWorker(t, environmentOf(t, c, transport, "test-0"),
				&plain{onCompute: func(ctx context.Context, _ int) error {
					if n.Add(1) == 10 {
						close(enough)
					}
					if n.Load() >= 10 {
						<-ctx.Done() // in the middle of a block
					}
					return ctx.Err()
				}})
			<-enough
			early.stop()
			if err := early.wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("the worker that left early: %v", err)
			}
			until(t, "the leave message", hasState(c, worker.StateLeft))
			late := startWorker(t, environmentOf(t, c, transport, "test-1"), &plain{})
			if err := waitRun(t, c); err != nil {
				t.Fatal(err)
			}
			if err := late.wait(); err != nil {
				t.Error(err)
			}
			k.check(t, 60)
			if s := c.Status(); s.LostWorkers != 0 || s.Reissued != 0 {
				t.Errorf("leaving counted as a loss: %+v", s)
			}
		})
	}
}

func TestNoTimeoutForSlowBlocks(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	for _, transport := range transports {
		k := newTaken()
		o := testOptions(1, k)
		o.Times = quick
		o.Times.Poll = 100 * time.Millisecond
		c := newTestCoordinator(t, o)
		w := startWorker(t, environmentOf(t, c, transport, "test-0"),
			&plain{onCompute: func(context.Context, int) error {
				time.Sleep(2 * quick.HeartbeatTimeout) // longer than Poll, HeartbeatTimeout and Rejoin
				return nil
			}})
		if err := waitRun(t, c); err != nil {
			t.Fatalf("%s: %v", transport, err)
		}
		if err := w.wait(); err != nil {
			t.Error(err)
		}
		k.check(t, 1)
		if s := c.Status(); s.LostWorkers != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestAllWorkersLostReportsExits(t *testing.T) {
	o := testOptions(2, newTaken())
	o.Workers = 3
	c := newTestCoordinator(t, o)
	e := environmentOf(t, c, "sockets", "test-0")
	begun := make(chan struct{})
	w := startWorker(t, e, &plain{onCompute: func(ctx context.Context, block int) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}})
	<-begun
	c.Exited(worker.Exit{Name: "test-1", Job: "job 1", Err: errors.New("no such file")})
	c.Exited(worker.Exit{Name: "test-0", Job: "job 0", Err: errors.New("exit status 1"), Log: "boo"})
	if s := c.Status(); s.Ended != "" || !slices.Contains(statesOf(c), worker.StateGone) {
		t.Fatalf("ended while a worker may join: %+v", s)
	}
	c.Exited(worker.Exit{Name: "test-2", Job: "job 2"})
	err := waitRun(t, c)
	_ = w.wait()
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Block != -1 || len(lost.Exits) != 3 {
		t.Fatalf("%v", err)
	}
	for _, s := range []string{"all workers are lost", "2 of 2 blocks", "job 1", "no such file", "job 0",
		"exit status 1", "boo", "job 2", "ended without error"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in: %v", s, err)
		}
	}
}

func TestAllWorkersLeft(t *testing.T) {
	o := testOptions(2, newTaken())
	o.Times.ExitReportWait = patience
	c := newTestCoordinator(t, o)
	c.expect("raw", 0, 1)
	r := newRaw(t, c)
	r.join("raw-0")
	if a := r.post(protocol.PathLeave, `{"worker":0}`); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	// As after scancel.
	c.Exited(worker.Exit{Name: "raw-0", Job: "job 7_0", Err: errors.New("CANCELLED by 0")})
	var lost *worker.LostError
	if err := waitRun(t, c); !errors.As(err, &lost) || !strings.Contains(err.Error(),
		"have left") || !strings.Contains(err.Error(), "worker raw-0 (job 7_0): CANCELLED by 0") {
		t.Errorf("%v", err)
	}
}

func TestLateWorkerSavesFailingRun(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.Times.ExitReportWait = patience
	c := newTestCoordinator(t, o)
	e := environmentOf(t, c, "sockets", "test-0")
	begun := make(chan struct{})
	w := startWorker(t, e, &plain{onCompute: func(ctx context.Context, block int) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}})
	<-begun
	for _, conn := range e.Connections {
		_ = conn.Close()
	}
	_ = w.wait()
	until(t, "the loss", hasState(c, worker.StateLost))
	startWorker(t, environmentOf(t, c, "sockets", "test-1"), &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 2)
}

// A run that was stopped, or whose machine slept, does not count this time as silence of its
// workers.
func TestCoordinatorPauseLosesNoWorker(t *testing.T) {
	o := testOptions(1, newTaken())
	o.Times.HeartbeatTimeout = time.Hour
	o.Times.Rejoin = time.Hour
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	later := time.Now().Add(2 * time.Hour)
	c.expireMembers(later, 2*time.Hour)
	if s := statesOf(c); s[0] != worker.StateJoined {
		t.Fatalf("%v", s)
	}
	c.expireMembers(later.Add(2*time.Hour), 0)
	if s := statesOf(c); s[0] != worker.StateLost {
		t.Fatalf("%v", s)
	}
}
