package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

// valueOptions returns the options of a coordinator that accepts values.
func valueOptions(blocks int, k *taken) Options {
	o := testOptions(blocks, k)
	o.MaxValue, o.MaxValues = 1<<20, 4<<20
	return o
}

// counting returns a worker whose value is the list of the blocks that it has begun.
func counting() *plain {
	p := &plain{}
	var mu sync.Mutex
	blocks := []int{}
	p.onCompute = func(_ context.Context, block int) error {
		mu.Lock()
		defer mu.Unlock()
		blocks = append(blocks, block)
		return nil
	}
	p.onClose = func() (err error) {
		p.value, err = json.Marshal(blocks)
		return err
	}
	return p
}

// before makes a worker call f before each block.
func (p *plain) before(f func(ctx context.Context, block int) error) *plain {
	compute := p.onCompute
	p.onCompute = func(ctx context.Context, block int) error {
		return errors.Join(compute(ctx, block), f(ctx, block))
	}
	return p
}

// checkValues fails the test unless the values have each of n blocks once.
func checkValues(t *testing.T, c *Coordinator, n int) {
	t.Helper()
	var all []int
	last := -1
	for _, v := range c.Values() {
		var blocks []int
		if err := json.Unmarshal(v.Body, &blocks); err != nil {
			t.Fatal(err)
		}
		if len(blocks) != v.Blocks || v.Worker <= last {
			t.Errorf("worker %d after %d: a value of %v, for %d blocks", v.Worker, last, blocks, v.Blocks)
		}
		last = v.Worker
		all = append(all, blocks...)
	}
	slices.Sort(all)
	for i, b := range all {
		if b != i {
			t.Fatalf("the values have the blocks %v", all)
		}
	}
	if len(all) != n {
		t.Errorf("the values have %d of %d blocks", len(all), n)
	}
}

// wantLost fails the test unless err is the loss of a worker's value.
func wantLost(t *testing.T, err error, name string) *worker.LostError {
	t.Helper()
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Worker != name || lost.Block != -1 {
		t.Fatalf("%v: %+v", err, lost)
	}
	return lost
}

func TestValues(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			k := newTaken()
			o := valueOptions(200, k)
			o.Workers = 3
			c := newTestCoordinator(t, o)
			var ws []*working
			for i := range 3 {
				e := environmentOf(t, c, transport, fmt.Sprintf("test-%d", i))
				e.Slots = i + 1
				ws = append(ws, startWorker(t, e, counting()))
			}
			err := waitRun(t, c)
			for _, w := range ws {
				err = errors.Join(err, w.wait())
			}
			if err != nil {
				t.Fatal(err)
			}
			k.check(t, 200)
			checkValues(t, c, 200)
			if s := c.Status(); s.Copies != 0 || s.Superseded != 0 {
				t.Errorf("%d copies, %d superseded", s.Copies, s.Superseded)
			}
		})
	}
}

// One worker holds two blocks while the other is idle.
func TestNoCopiesWithValues(t *testing.T) {
	k := newTaken()
	o := valueOptions(3, k)
	o.Workers = 2
	c := newTestCoordinator(t, o)
	gate := make(chan struct{})
	wait := func(ctx context.Context, block int) error {
		if block == 0 {
			<-gate
		}
		return nil
	}
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), counting().before(wait))
	until(t, "two leases", func() bool { return c.Status().Held == 2 })
	startWorker(t, environmentOf(t, c, "sockets", "test-1"), counting().before(wait))
	until(t, "an idle worker", func() bool { return c.Status().Done == 1 && c.Status().Polls == 1 })
	close(gate)
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	checkValues(t, c, 3)
	if n := c.Status().Copies; n != 0 {
		t.Errorf("%d copies", n)
	}
}

// A value may be larger than other messages.
func TestLargeValue(t *testing.T) {
	for _, transport := range transports {
		for _, size := range []int{protocol.MaxMessage, 1 << 20} {
			o := valueOptions(1, newTaken())
			c := newTestCoordinator(t, o)
			p := &plain{value: make([]byte, size)}
			for i := range p.value {
				p.value[i] = byte(i * i >> 3)
			}
			w := startWorker(t, environmentOf(t, c, transport, "test-0"), p)
			if err := errors.Join(waitRun(t, c), w.wait()); err != nil {
				t.Fatal(err)
			}
			if v := c.Values(); len(v) != 1 || !slices.Equal(v[0].Body, p.value) || p.joined.MaxValue != o.MaxValue {
				t.Errorf("%s: %d values", transport, len(v))
			}
		}
	}
}

func TestValueTooLarge(t *testing.T) {
	k := newTaken()
	c := newTestCoordinator(t, valueOptions(2, k))
	r := newRaw(t, c)
	r.join("raw-0")
	r.beating()
	for _, l := range r.lease(2) {
		r.result(l.Lease, l.Block, resultOf(l.Block))
	}
	leave := func(bytes int) answered {
		text, err := protocol.Encode(protocol.Leave{Worker: r.worker, Blocks: 2, Value: make([]byte, bytes)})
		if err != nil {
			t.Fatal(err)
		}
		return r.post(protocol.PathLeave, string(text))
	}
	if a := leave(1<<20 + 1); a.status != 413 || a.Code != "size" && a.Code != "length" {
		t.Errorf("%+v", a)
	}
	if a := leave(2 << 20); a.status != 413 || a.Code != "length" {
		t.Errorf("%+v", a)
	}
	if a := leave(1 << 20); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if v := c.Values(); len(v) != 1 || len(v[0].Body) != 1<<20 {
		t.Errorf("%d values", len(v))
	}
}

func TestValuesTooLargeTogether(t *testing.T) {
	o := valueOptions(2, newTaken())
	o.Workers, o.MaxValue, o.MaxValues, o.OneBlockPerJob = 2, 100, 150, true
	c := newTestCoordinator(t, o)
	for i := range 2 {
		startWorker(t, environmentOf(t, c, "sockets", fmt.Sprintf("test-%d", i)), &plain{value: make([]byte, 100)})
	}
	if err := waitRun(t, c); !errors.Is(err, ErrValuesSize) {
		t.Error(err)
	}
}

func TestValueOfOneBlockPerJob(t *testing.T) {
	o := valueOptions(5, newTaken())
	o.Workers, o.OneBlockPerJob = 5, true
	c := newTestCoordinator(t, o)
	for i := range 5 {
		startWorker(t, environmentOf(t, c, "tls", fmt.Sprintf("test-%d", i)), counting())
	}
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	checkValues(t, c, 5)
}

// breakConnections closes a worker's connections, as when it is killed.
func breakConnections(e *client.Environment) {
	for _, conn := range e.Connections {
		_ = conn.Close()
	}
}

func TestValueLost(t *testing.T) {
	for _, when := range []string{"in a block", "while it closes"} {
		t.Run(when, func(t *testing.T) {
			o := valueOptions(3, newTaken())
			c := newTestCoordinator(t, o)
			e := environmentOf(t, c, "sockets", "test-0")
			p := counting()
			kill := func() {
				breakConnections(e)
				until(t, "the loss", func() bool { return c.Status().LostWorkers == 1 })
				c.Exited(worker.Exit{Name: e.Name, Err: errors.New("signal: killed")})
			}
			if when == "in a block" {
				p.before(func(_ context.Context, block int) error {
					if block == 2 {
						until(t, "accepted blocks", func() bool { return c.Status().Done == 2 })
						kill()
					}
					return nil
				})
			} else {
				p.onClose = func() error { kill(); return nil }
			}
			startWorker(t, e, p)
			lost := wantLost(t, waitRun(t, c), "test-0")
			if len(lost.Exits) != 1 || c.Values() != nil {
				t.Errorf("%+v, %d values", lost, len(c.Values()))
			}
		})
	}
}

// A worker that is lost before one of its results was accepted does not matter: its blocks are
// computed again, for another value.
func TestLostWorkerWithoutAcceptedBlocks(t *testing.T) {
	k := newTaken()
	o := valueOptions(20, k)
	o.Workers = 2
	c := newTestCoordinator(t, o)
	e := environmentOf(t, c, "sockets", "test-0")
	begun := make(chan struct{})
	var once sync.Once
	startWorker(t, e, counting().before(func(ctx context.Context, _ int) error {
		once.Do(func() { close(begun) })
		<-ctx.Done()
		return ctx.Err()
	}))
	<-begun
	breakConnections(e)
	until(t, "the loss", func() bool { return c.Status().LostWorkers == 1 })
	c.Exited(worker.Exit{Name: e.Name, Err: errors.New("signal: killed")})
	startWorker(t, environmentOf(t, c, "sockets", "test-1"), counting())
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 20)
	checkValues(t, c, 20)
}

func TestLeaveEarlyWithValue(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			k := newTaken()
			o := valueOptions(20, k)
			o.Workers, o.OnDemand = 2, true
			c := newTestCoordinator(t, o)
			first := startWorker(t, environmentOf(t, c, transport, "test-0"), counting())
			for b := range 3 {
				c.Offer(b, nil)
			}
			until(t, "the first blocks", func() bool {
				s := c.Status()
				return s.Done == 3 && len(s.Workers[0].Held) == 0 && s.Polls == 1
			})
			first.stop()
			_ = first.wait()
			for b := 3; b < 20; b++ {
				c.Offer(b, nil)
			}
			startWorker(t, environmentOf(t, c, transport, "test-1"), counting())
			if err := waitRun(t, c); err != nil {
				t.Fatal(err)
			}
			k.check(t, 20)
			checkValues(t, c, 20)
			if v := c.Values(); len(v) != 2 || v[0].Blocks != 3 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// The value of a worker that stops in the middle of a block includes that block, which another
// worker computes again.
func TestInterruptedBlockSpoilsValue(t *testing.T) {
	for _, accepted := range []int{0, 2} {
		k := newTaken()
		o := valueOptions(5, k)
		o.Workers = 2
		c := newTestCoordinator(t, o)
		begun := make(chan struct{})
		first := startWorker(t, environmentOf(t, c, "sockets", "test-0"),
			counting().before(func(ctx context.Context, block int) error {
				if block < accepted {
					return nil
				}
				until(t, "accepted blocks", func() bool { return c.Status().Done == accepted })
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			}))
		<-begun
		first.stop()
		_ = first.wait()
		if accepted > 0 {
			wantLost(t, waitRun(t, c), "test-0")
			continue
		}
		startWorker(t, environmentOf(t, c, "sockets", "test-1"), counting())
		if err := waitRun(t, c); err != nil {
			t.Fatal(err)
		}
		checkValues(t, c, 5)
	}
}

// A worker that does not support values leaves without one.
func TestLeaveWithoutValue(t *testing.T) {
	for _, text := range []string{`{"worker":0}`, `{"worker":0,"blocks":2,"value":"AA=="}`} {
		c := newTestCoordinator(t, valueOptions(1, newTaken()))
		r := newRaw(t, c)
		r.join("raw-0")
		r.beating()
		l := r.lease(1)[0]
		r.result(l.Lease, 0, resultOf(0))
		if a := r.post(protocol.PathLeave, text); a.status != 200 {
			t.Errorf("%+v", a)
		}
		wantLost(t, waitRun(t, c), "raw-0")
	}
}

// After the last block, workers are asked to leave, and none can join, until the values have
// arrived.
func TestEndWithValues(t *testing.T) {
	c := newTestCoordinator(t, valueOptions(1, newTaken()))
	r := newRaw(t, c)
	r.join("raw-0")
	l := r.lease(1)[0]
	heard := make(chan string)
	go func() {
		a, _ := r.try(context.Background(), protocol.PathHeartbeat,
			jsonBody(protocol.Heartbeat{Worker: r.worker, Wait: patience.Milliseconds()}))
		heard <- a.body
	}()
	r.result(l.Lease, 0, resultOf(0))
	if text := <-heard; text != `{"end":"done"}` {
		t.Error(text)
	}
	if a := r.post(protocol.PathLease, `{"worker":0,"want":1,"held":[],"wait_ms":20000,"noted":0}`); a.body != `{"end":"done"}` {
		t.Errorf("%+v", a)
	}
	late, err := protocol.Encode(protocol.Join{Protocol: 1, Name: "late", Kind: "raw", Build: testBuild,
		Arch: protocol.ThisArch(), Host: "h", PID: 1, Cores: 1, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	if a := r.post(protocol.PathJoin, string(late)); a.status != 410 || a.Code != "done" {
		t.Errorf("%+v", a)
	}
	if s := c.Status(); s.Ended != "" {
		t.Errorf("it has ended: %s", s.Ended)
	}
	if a := r.post(protocol.PathLeave, `{"worker":0,"blocks":1,"value":"AA=="}`); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if a := r.post(protocol.PathLeave, `{"worker":0,"blocks":1,"value":"AA=="}`); a.status != 410 || a.Code != "left" {
		t.Errorf("again: %+v", a)
	}
	if err := waitRun(t, c); err != nil || len(c.Values()) != 1 {
		t.Errorf("%v, %d values", err, len(c.Values()))
	}
}

// Closing takes longer than any timeout of the run. The worker's heartbeats continue meanwhile.
func TestSlowCloseWithValue(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	for _, transport := range transports {
		o := valueOptions(4, newTaken())
		o.Times = quick
		c := newTestCoordinator(t, o)
		p := counting()
		last := p.onClose
		p.onClose = func() error {
			time.Sleep(2 * quick.HeartbeatTimeout)
			return last()
		}
		startWorker(t, environmentOf(t, c, transport, "test-0"), p)
		if err := waitRun(t, c); err != nil {
			t.Fatal(err)
		}
		checkValues(t, c, 4)
		if n := c.Status().LostWorkers; n != 0 {
			t.Errorf("%d workers were lost", n)
		}
	}
}

// The network fails while the worker closes.
func TestValueSentAgain(t *testing.T) {
	c := newTestCoordinator(t, valueOptions(3, newTaken()))
	e := environmentOf(t, c, "tls", "test-0")
	x := newProxy(t, e.Endpoint.Addresses[0])
	e.Endpoint.Addresses = []string{x.Addr().String()}
	p := counting()
	last := p.onClose
	p.onClose = func() error {
		x.cut(true)
		return last()
	}
	startWorker(t, e, p)
	until(t, "refused connections", func() bool { return x.refused.Load() > 3 })
	x.mu.Lock()
	x.deaf = false
	x.mu.Unlock()
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	checkValues(t, c, 3)
}

func TestCancelBeforeValues(t *testing.T) {
	c := newTestCoordinator(t, valueOptions(1, newTaken()))
	closing, gate := make(chan struct{}), make(chan struct{})
	w := startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{onClose: func() error {
		close(closing)
		<-gate
		return nil
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-closing
		cancel(errClosing)
	}()
	if err := c.Wait(ctx); !errors.Is(err, errClosing) {
		t.Error(err)
	}
	close(gate)
	_ = w.wait()
}

func TestCloseErrorWithValues(t *testing.T) {
	c := newTestCoordinator(t, valueOptions(1, newTaken()))
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{onClose: func() error { return errClosing }})
	var f *worker.Failure
	if err := waitRun(t, c); !errors.As(err, &f) || f.Worker != "test-0" || f.Message != errClosing.Error() {
		t.Error(err)
	}
}
