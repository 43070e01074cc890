package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

func TestCopiesForIdleWorkers(t *testing.T) {
	for _, transport := range transports {
		for _, where := range []string{"Read", "Compute"} {
			t.Run(transport+"/"+where, func(t *testing.T) {
				k := newTaken()
				o := testOptions(3, k)
				o.Workers = 2
				c := newTestCoordinator(t, o)
				stuck, informed := make(chan struct{}), make(chan struct{})
				wait := func(ctx context.Context, block int) error {
					if block == 0 {
						close(stuck)
						<-ctx.Done() // the run reports that the block is no longer needed
						close(informed)
					}
					return ctx.Err()
				}
				p := &plain{onCompute: wait}
				if where == "Read" {
					p = &plain{onRead: func(ctx context.Context, l client.Lease) error { return wait(ctx, l.Block) }}
				}
				slow := startWorker(t, environmentOf(t, c, transport, "test-0"), p)
				<-stuck
				e := environmentOf(t, c, transport, "test-1")
				e.Slots = 2 // one of them waits with block 2
				fast := startWorker(t, e, &plain{onCompute: func(ctx context.Context, block int) error {
					if block == 2 {
						<-informed // the run must not end before the superseded worker is informed
					}
					return nil
				}})
				if err := waitRun(t, c); err != nil {
					t.Fatal(err)
				}
				for _, w := range []*working{slow, fast} {
					if err := w.wait(); err != nil {
						t.Error(err)
					}
				}
				k.check(t, 3)
				if k.by[0] != "test-1" {
					t.Errorf("block 0 was computed by %s", k.by[0])
				}
				if s := c.Status(); s.Copies == 0 || s.LostWorkers != 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// A worker that requests more blocks than it has slots, while all blocks are held, gets copies as
// soon as one of its slots is free. It need not send a new request.
func TestCopyWhenSlotIsFree(t *testing.T) {
	k := newTaken()
	o := testOptions(3, k)
	o.Workers = 2
	c := newTestCoordinator(t, o)
	stuck, waits := make(chan struct{}), make(chan struct{})
	var once sync.Once
	startWorker(t, environmentOf(t, c, "sockets", "test-0"),
		&plain{onCompute: func(ctx context.Context, block int) error {
			once.Do(func() { close(stuck) })
			<-ctx.Done()
			return ctx.Err()
		}})
	<-stuck
	startWorker(t, environmentOf(t, c, "sockets", "test-1"),
		&plain{onCompute: func(ctx context.Context, block int) error {
			if block == 2 {
				<-waits // until the worker has requested another lease
			}
			return nil
		}})
	until(t, "a waiting request", func() bool { return c.Status().Polls == 1 })
	close(waits)
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 3)
}

func TestLastOfferWakesPollsForCopies(t *testing.T) {
	k := newTaken()
	o := testOptions(1, k)
	o.Workers, o.OnDemand = 2, true
	c := newTestCoordinator(t, o)
	taken := make(chan struct{}, 2)
	for i := range 2 {
		startWorker(t, environmentOf(t, c, "sockets", worker.WorkerName("test", i)),
			&plain{onCompute: func(ctx context.Context, block int) error {
				taken <- struct{}{}
				<-ctx.Done()
				return nil
			}})
	}
	until(t, "two waiting requests", func() bool { return c.Status().Polls == 2 })
	c.Offer(0, nil)
	until(t, "two workers with the block", func() bool { return len(taken) == 2 })
	c.end(nil)
}

func TestReturnedBlockGoesToWaitingWorker(t *testing.T) {
	o := testOptions(1, newTaken())
	o.Workers, o.NoCopies = 2, true
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	if n := len(r.lease(1)); n != 1 {
		t.Fatalf("%d leases", n)
	}
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{})
	until(t, "a waiting request", func() bool { return c.Status().Polls == 1 })
	r.post(protocol.PathLease, `{"worker":0,"want":0,"held":[],"wait_ms":0,"noted":0}`)
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
}

// A request is woken for a block just after its worker has sent another over a new connection. The
// block goes to the next waiting worker.
func TestUnusedTurnIsPassedOn(t *testing.T) {
	k := newTaken()
	o := testOptions(1, k)
	o.Workers, o.OnDemand = 2, true
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = r.try(t.Context(), protocol.PathLease,
			strings.NewReader(`{"worker":0,"want":1,"held":[],"wait_ms":60000,"noted":0}`))
	})
	until(t, "a waiting request", func() bool { return c.Status().Polls == 1 })
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{})
	until(t, "two waiting requests", func() bool { return c.Status().Polls == 2 })
	c.mu.Lock()
	c.schedule.offer(0)
	c.polls.wake(1)
	close(c.members[0].poll)
	c.members[0].poll = nil
	c.mu.Unlock()
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	k.check(t, 1)
	asking.Wait()
}

func TestSupersededResultReleasesBlock(t *testing.T) {
	k := newTaken()
	o := testOptions(1, k)
	o.Workers = 2
	o.Blocks, o.OnDemand = 2, true
	c := newTestCoordinator(t, o)
	c.Offer(0, []byte(`"a"`))
	c.Offer(1, []byte(`"b"`))
	a, b := newRaw(t, c), newRaw(t, c)
	a.join("raw-0")
	b.join("raw-1")
	defer a.beating()()
	defer b.beating()()
	la := a.lease(2)
	lb := b.lease(1)
	if len(la) != 2 || len(lb) != 1 || la[0].Block != lb[0].Block || string(lb[0].Payload) != `"a"` {
		t.Fatalf("%+v %+v", la, lb)
	}
	released := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.released[lb[0].Block]
	}
	if x := b.result(lb[0].Lease, lb[0].Block, resultOf(lb[0].Block)); x.status != 200 {
		t.Fatalf("%+v", x)
	}
	if released() != 0 {
		t.Error("a block was released that a worker may still read")
	}
	if x := a.result(la[0].Lease, la[0].Block, resultOf(la[0].Block)); x.status != 409 || x.code() != "superseded" {
		t.Errorf("%+v", x)
	}
	if released() != 1 {
		t.Error("the block was not released with its last lease")
	}
	if x := a.post(protocol.PathError, fmt.Sprintf(`{"worker":0,"lease":%d,"block":0,"message":"late"}`,
		la[0].Lease)); x.status != 409 {
		t.Errorf("an error of a block that is done: %+v", x)
	}
	if s := c.Status(); s.Superseded != 1 || s.Ended != "" {
		t.Errorf("%+v", s)
	}
}

// Two workers joined with one name, as when a job is restarted before its end was noticed.
func TestExitReleasesBlocksOfAllWithName(t *testing.T) {
	k := newTaken()
	o := testOptions(3, k)
	o.Workers = 3
	c := newTestCoordinator(t, o)
	var same []*raw
	for range 2 {
		r := newRaw(t, c)
		r.join("raw-0")
		r.lease(1)
		same = append(same, r)
	}
	other := newRaw(t, c)
	other.join("raw-1")
	for b := range same {
		c.mu.Lock()
		l := c.schedule.grant(other.worker, c.schedule.holders[other.worker], b, time.Now())
		c.mu.Unlock()
		if a := other.result(l.id, b, resultOf(b)); a.status != 200 {
			t.Fatalf("%+v", a)
		}
	}
	c.Exited(worker.Exit{Name: "raw-0"})
	k.mu.Lock()
	defer k.mu.Unlock()
	if fmt.Sprint(k.released) != "map[0:1 1:1]" {
		t.Errorf("released: %v", k.released)
	}
}

// While a block waits for a worker that holds no other block, requests of workers that hold some
// are woken only when something has changed.
func TestNoUnneededWakeups(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.lastTry.push(0)
	c.polls.add()
	c.wake(0)
	if n := len(c.polls.waiting); n != 1 {
		t.Errorf("%d wait", n)
	}
	c.wake(1)
	if n := len(c.polls.waiting); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func TestBlockThatKillsWorkersIsNamed(t *testing.T) {
	k := newTaken()
	o := testOptions(4, k)
	o.Workers, o.Reissues, o.NoCopies = 8, 2, true
	o.Times.ExitReportWait = 10 * time.Second // the test reports the exits
	c := newTestCoordinator(t, o)
	for i := range 3 {
		e := environmentOf(t, c, "sockets", worker.WorkerName("test", i))
		begun := make(chan struct{})
		w := startWorker(t, e, &plain{onCompute: func(ctx context.Context, block int) error {
			if block == 2 {
				close(begun)
				<-ctx.Done()
			}
			return ctx.Err()
		}})
		<-begun
		for _, conn := range e.Connections { // the worker dies
			_ = conn.Close()
		}
		_ = w.wait()
		until(t, "the loss", func() bool { return c.Status().Workers[i].State == worker.StateLost })
		c.Exited(worker.Exit{Name: e.Name, Job: fmt.Sprintf("process %d", 100+i), Err: errors.New("signal: killed"),
			Log: "out of\nmemory"})
	}
	err := waitRun(t, c)
	var lost *worker.LostError
	if !errors.As(err, &lost) || lost.Block != 2 || len(lost.Exits) != 3 {
		t.Fatalf("%v", err)
	}
	for _, s := range []string{"block 2", "3 times", "worker test-2 (process 102): signal: killed", "  memory",
		"test-0"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in: %v", s, err)
		}
	}
	if n := c.Status().Reissued; n < 2 {
		t.Errorf("%d blocks were leased again", n)
	}
}

func TestNoBlocksBeforeBarrier(t *testing.T) {
	k := newTaken()
	o := testOptions(4, k)
	o.Workers, o.Barrier = 2, time.Hour
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	defer r.beating()()
	if n := len(r.lease(1)); n != 0 {
		t.Fatalf("%d blocks before the barrier", n)
	}
	ended := make(chan error, 1)
	go func() { ended <- waitRun(t, c) }()
	startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	k.check(t, 4)
}

func TestBarrierTimeout(t *testing.T) {
	o := testOptions(4, newTaken())
	o.Workers, o.Barrier = 3, 50*time.Millisecond
	c := newTestCoordinator(t, o)
	w := startWorker(t, environmentOf(t, c, "sockets", "test-0"), &plain{})
	err := waitRun(t, c)
	var lost *worker.LostError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "of 3 workers joined within 50ms") {
		t.Errorf("%v", err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}

	// The run fails at once when a required worker has ended.
	o.Barrier = time.Hour
	c = newTestCoordinator(t, o)
	c.Exited(worker.Exit{Name: "test-0", Err: errors.New("exit status 3")})
	if err := waitRun(t, c); !errors.As(err, &lost) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}

func TestBlockCommonToLostWorkersIsNamed(t *testing.T) {
	for n, want := range map[int]string{1: "; 2 of them held block 0, which may be the cause",
		2: "; 2 of them held blocks 0 1, one of which may be the cause", 6: ""} {
		o := testOptions(8, newTaken())
		o.Workers = 2
		c := newTestCoordinator(t, o)
		c.expect("raw", 0, 2)
		for i := range 2 {
			r := newRaw(t, c)
			r.join(worker.WorkerName("raw", i))
			c.mu.Lock()
			c.schedule.holders[r.worker].slots = 8
			c.mu.Unlock()
			if got := len(r.lease(n)); got != n {
				t.Fatalf("%d leases", got)
			}
			c.Exited(worker.Exit{Name: worker.WorkerName("raw", i), Err: errors.New("exit status 7")})
		}
		err := waitRun(t, c)
		if err == nil || !strings.HasPrefix(err.Error(), "all workers are lost, with 8 of 8 blocks undone"+want+"\n") {
			t.Errorf("%v", err)
		}
	}
}
