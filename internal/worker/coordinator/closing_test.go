package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/worker"
)

func TestDiscardWithoutCompute(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.Workers, o.Times.Heartbeat = 2, 20*time.Millisecond
	c := newTestCoordinator(t, o)
	gate := make(chan struct{})
	var reads, seen atomic.Int64
	var second context.Context
	p := &plain{
		onRead: func(ctx context.Context, l client.Lease) error {
			if l.Block == 1 {
				second = ctx
			}
			reads.Add(1)
			return nil
		},
		onCompute: func(context.Context, int) error { seen.Add(1); <-gate; return nil },
	}
	w := startWorker(t, environmentOf(t, c, "sockets", "test-0"), p)
	until(t, "a block in Compute, and one that waits for the slot",
		func() bool { return reads.Load() == 2 && seen.Load() == 1 })
	r := newRaw(t, c)
	r.join("raw-0")
	c.mu.Lock()
	l := c.schedule.grant(r.worker, c.schedule.holders[r.worker], 1, time.Now())
	c.mu.Unlock()
	if x := r.result(l.id, 1, resultOf(1)); x.status != 200 {
		t.Fatalf("%+v", x)
	}
	<-second.Done()
	close(gate)
	if err := errors.Join(waitRun(t, c), w.wait()); err != nil {
		t.Fatal(err)
	}
	k.check(t, 2)
	if fmt.Sprint(p.drops) != "map[1:1]" || seen.Load() != 1 {
		t.Errorf("discarded, by block: %v; %d were computed", p.drops, seen.Load())
	}
}

func TestDiscardAtEnd(t *testing.T) {
	c := newTestCoordinator(t, testOptions(2, newTaken()))
	var reads, computes atomic.Int64
	p := &plain{
		onRead:    func(context.Context, client.Lease) error { reads.Add(1); return nil },
		onCompute: func(ctx context.Context, _ int) error { computes.Add(1); <-ctx.Done(); return ctx.Err() },
	}
	var atClose map[int]int
	p.onClose = func() error { atClose = p.drops; return nil }
	w := startWorker(t, environmentOf(t, c, "sockets", "test-0"), p)
	until(t, "a block in Compute, and one that was read",
		func() bool { return reads.Load() == 2 && computes.Load() == 1 })
	w.stop()
	_ = w.wait()
	if len(atClose) != 1 || atClose[1] != 1 {
		t.Errorf("discarded before Close: %v", atClose)
	}
}

var errClosing = errors.New("the model could not be closed")

func TestCloseErrorFailsRun(t *testing.T) {
	for _, how := range []string{"an error", "a panic"} {
		for _, local := range []bool{true, false} {
			k := newTaken()
			o := testOptions(20, k)
			o.Workers, o.Barrier = 2, patience
			c := newTestCoordinator(t, o)
			d := newDoubles(t)
			d.facts.Local = local
			d.plain = func(name string) *plain {
				return &plain{onClose: func() error {
					if name != "double-1" {
						return nil
					}
					if how == "a panic" {
						panic(errClosing)
					}
					return &client.StackError{Err: errClosing, Trace: []byte("where it happened")}
				}}
			}
			r := runOptions(2)
			if !local {
				r.Endpoint = listen(t, c)
			}
			r.StopWithin = 2 * patience
			err := Run(t.Context(), c, d, r)
			var f *worker.Failure
			if !errors.As(err, &f) || f.Block != -1 || f.Worker != "double-1" || f.Stack == "" ||
				!strings.Contains(f.Message, errClosing.Error()) {
				t.Errorf("%s: %v, %+v", how, err, f)
			}
			k.check(t, 20) // all blocks were accepted nevertheless
		}
	}
}

// A function of the handler may end its goroutine, as a failing test does.
func TestGoexitFailsRun(t *testing.T) {
	for where, block := range map[string]int{"Open": -1, "Read": 0, "Compute": 0, "Notify": -1, "Close": -1} {
		t.Run(where, func(t *testing.T) {
			o := testOptions(2, newTaken())
			o.MaxValue, o.MaxValues = 100, 100 // so that the run waits for Close
			o.Note = func() json.RawMessage { return json.RawMessage(`1`) }
			c := newTestCoordinator(t, o)
			exit := func(at string) {
				if at == where {
					runtime.Goexit()
				}
			}
			p := &plain{
				onRead:    func(context.Context, client.Lease) error { exit("Read"); return nil },
				onCompute: func(context.Context, int) error { exit("Compute"); return nil },
				onNote:    func(string) { exit("Notify") },
				onClose:   func() error { exit("Close"); return nil },
			}
			wo := workOptions(environmentOf(t, c, "sockets", "test-0"), p)
			open := wo.Open
			wo.Open = func(ctx context.Context, j client.JoinInfo) (client.Handler, error) {
				exit("Open")
				return open(ctx, j)
			}
			w := startWork(t, wo, p)
			err := waitRun(t, c)
			var f *worker.Failure
			if !errors.As(err, &f) || f.Block != block || !strings.Contains(f.Message, "runtime.Goexit") {
				t.Errorf("%v: %+v", err, f)
			}
			if err := w.wait(); err == nil && where != "Close" {
				t.Error("the worker ended without an error")
			}
		})
	}
}

// A worker that leaves early returns its blocks before it closes, however long closing takes.
func TestSlowClose(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	k := newTaken()
	o := testOptions(4, k)
	o.Workers, o.Times, o.NoCopies = 2, quick, true
	c := newTestCoordinator(t, o)
	begun, closing := make(chan struct{}), make(chan struct{})
	mayClose := sync.OnceFunc(func() { close(closing) })
	var once sync.Once
	first := startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{
		onCompute: func(ctx context.Context, _ int) error {
			once.Do(func() { close(begun) })
			<-ctx.Done()
			return ctx.Err()
		},
		onClose: func() error { <-closing; return errClosing },
	})
	t.Cleanup(mayClose)
	<-begun
	first.stop()
	until(t, "the return of its blocks", func() bool { return len(c.Status().Workers[0].Held) == 0 })
	gate := make(chan struct{})
	startWorker(t, environmentOf(t, c, "sockets", "test-1"),
		&plain{onCompute: func(ctx context.Context, block int) error {
			if block == 3 {
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		}})
	until(t, "the blocks of the first worker", func() bool { return c.Status().Done == 3 })
	time.Sleep(2 * quick.HeartbeatTimeout) // its heartbeats continue meanwhile
	if s := c.Status(); s.Workers[0].State != worker.StateJoined || s.LostWorkers != 0 {
		t.Fatalf("%+v", s)
	}
	mayClose()
	err := waitRun(t, c)
	var f *worker.Failure
	if !errors.As(err, &f) || f.Worker != "test-0" || f.Block != -1 {
		t.Errorf("%v", err)
	}
	if err := first.wait(); !errors.Is(err, errClosing) && !strings.Contains(fmt.Sprint(err), errClosing.Error()) {
		t.Errorf("%v", err)
	}
	close(gate)
}

// All connections for results are in use then, by results that wait for the run.
func TestLeaveWithWaitingResult(t *testing.T) {
	for _, transport := range transports {
		for _, at := range []string{"is taken", "waits for memory"} {
			t.Run(transport+", it "+at, func(t *testing.T) {
				k := newTaken()
				o := testOptions(3, k)
				o.Workers, o.NoCopies, o.Reissues = 2, true, -1
				o.Times.Heartbeat, o.Times.ShutdownGrace = 50*time.Millisecond, 500*time.Millisecond
				in, gate := make(chan struct{}), make(chan struct{})
				var first sync.Once
				o.Accept = func(ctx context.Context, r *Result) error {
					first.Do(func() { close(in) })
					<-gate
					return k.accept(ctx, r)
				}
				c := newTestCoordinator(t, o)
				goOn := sync.OnceFunc(func() { close(gate) })
				if at == "waits for memory" {
					goOn()
					if !c.memory.TryAcquire(o.MaxBytes) {
						t.Fatal("the memory is taken")
					}
					goOn = sync.OnceFunc(func() { c.memory.Release(o.MaxBytes) })
				}
				t.Cleanup(goOn)
				p := &plain{}
				computed := make(chan struct{}, 3)
				p.onCompute = func(context.Context, int) error { computed <- struct{}{}; return nil }
				wo := workOptions(environmentOf(t, c, transport, "test-0"), p)
				wo.Times.ShutdownGrace = o.Times.ShutdownGrace
				w := startWork(t, wo, p)
				if <-computed; at == "is taken" {
					<-in
				}
				w.stop()
				_ = w.wait()
				until(t, "its end", func() bool { return statesOf(c)[0] != worker.StateJoined })
				if s := c.Status(); s.Workers[0].State != worker.StateLeft || s.LostWorkers != 0 {
					t.Errorf("%+v", s)
				}
				goOn()
				other := startWorker(t, environmentOf(t, c, transport, "test-1"), &plain{})
				if err := errors.Join(waitRun(t, c), other.wait()); err != nil {
					t.Error(err)
				}
				k.check(t, 3)
			})
		}
	}
}

func TestOpenContextEnd(t *testing.T) {
	for _, early := range []bool{false, true} {
		c := newTestCoordinator(t, testOptions(2, newTaken()))
		p := &plain{}
		if early {
			p.onCompute = func(context.Context, int) error { return errClosing }
		}
		var life context.Context
		var atClose error
		o := workOptions(environmentOf(t, c, "sockets", "test-0"), p)
		o.Open = func(ctx context.Context, j client.JoinInfo) (client.Handler, error) {
			life, p.joined = ctx, j
			return p, nil
		}
		p.onClose = func() error {
			if early {
				<-life.Done()
			}
			atClose = life.Err()
			return nil
		}
		_ = startWork(t, o, p).wait()
		if early != (atClose != nil) || life.Err() == nil {
			t.Errorf("early: %v; it had ended at Close: %v; afterwards: %v", early, atClose, life.Err())
		}
	}
}

// A block on its last try is leased to a worker as soon as it holds no other block. Then the others
// are leased.
func TestLastTryHasWorkerAlone(t *testing.T) {
	k := newTaken()
	o := testOptions(4, k)
	o.Workers, o.OnDemand, o.NoCopies, o.Reissues = 2, true, true, 1
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	c.Offer(0, nil)
	c.Offer(1, nil)
	if n := len(r.lease(2)); n != 2 {
		t.Fatalf("%d leases", n)
	}
	gate, begun := make(chan struct{}), make(chan int, 4)
	var most atomic.Int64
	e := environmentOf(t, c, "sockets", "test-0")
	e.Slots = 2
	startWorker(t, e, &plain{onCompute: func(_ context.Context, block int) error {
		begun <- block
		if block == 2 {
			<-gate
		}
		if block < 2 {
			most.Store(max(most.Load(), int64(len(c.Status().Workers[1].Held))))
		}
		return nil
	}})
	c.Offer(2, nil)
	until(t, "the worker at block 2, and its waiting request",
		func() bool { return len(begun) == 1 && c.Status().Polls == 1 })
	c.Exited(worker.Exit{Name: "raw-0", Err: errors.New("signal: killed")})
	c.Offer(3, nil)
	if s := c.Status(); len(s.Workers[1].Held) != 1 || s.Waiting != 3 {
		t.Errorf("%+v", s)
	}
	close(gate)
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 4)
	var order []int
	for len(begun) > 0 {
		order = append(order, <-begun)
	}
	if fmt.Sprint(order) != "[2 0 1 3]" || most.Load() != 1 {
		t.Errorf("blocks began in the order %v; with the lost ones, the worker held %d others", order,
			most.Load()-1)
	}
}

func TestInnocentBlockIsNotBlamed(t *testing.T) {
	o := testOptions(2, newTaken())
	o.Workers, o.NoCopies, o.Reissues = 8, true, 2
	c := newTestCoordinator(t, o)
	// Reading the second of two blocks kills the worker. Each time, the same worker also holds the
	// first, which takes longer.
	for i := 0; c.Status().Ended == "" && i < 5; i++ {
		e := environmentOf(t, c, "sockets", worker.WorkerName("test", i))
		died := make(chan struct{})
		w := startWorker(t, e, &plain{
			onRead: func(_ context.Context, l client.Lease) error {
				if l.Block == 1 {
					close(died)
					for _, conn := range e.Connections {
						_ = conn.Close()
					}
				}
				return nil
			},
			onCompute: func(ctx context.Context, _ int) error {
				if i < 2 {
					<-ctx.Done()
				}
				return ctx.Err()
			},
		})
		<-died
		_ = w.wait()
		until(t, "the loss", func() bool { return c.Status().Workers[i].State == worker.StateLost })
		c.Exited(worker.Exit{Name: e.Name, Err: errors.New("signal: killed")})
	}
	err := waitRun(t, c)
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Block != 1 || len(lost.Exits) != 3 {
		t.Errorf("%v", err)
	}
}
