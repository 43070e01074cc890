// Package workersim runs many workers against one coordinator in one process, without real work, to
// measure the coordinator. Each worker runs [client.Work] with its connections, heartbeats and
// leases; only its blocks are empty.
package workersim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/coordinator"
	"leat/internal/worker/protocol"
	"leat/worker"
)

// Options configures a simulation.
type Options struct {
	Workers int
	Blocks  int
	// Slots of each worker; 0: one.
	Slots int
	// BodyBytes of each result.
	BodyBytes int
	// Compute is how long a worker sleeps on each block; 0: not at all.
	Compute time.Duration
	// Accept is the coordinator's; nil: results are dropped.
	Accept func(context.Context, *coordinator.Result) error
	// TLS connects workers by TLS over loopback, otherwise by pairs of sockets, as child processes.
	TLS   bool
	Times protocol.Times
}

// Figures are the results of a simulation.
type Figures struct {
	Workers, Blocks int
	// Joining is the time from the start of the first worker until all have joined, with their
	// connections made; Wall from then to the last block.
	Joining, Wall time.Duration
	// Blocks in a second.
	PerSecond float64
	// Lease is how long workers waited for an answer with blocks. Since all workers request blocks
	// at once, it is the time in which the coordinator leases one to each.
	LeaseMedian, LeaseP99, LeaseMax time.Duration
	// Lost workers; there should be none.
	Lost int64
}

func (f Figures) String() string {
	return fmt.Sprintf("%d workers: joined in %v; %.0f blocks/s; lease median %v, p99 %v, longest %v; %d lost",
		f.Workers, f.Joining.Round(time.Millisecond), f.PerSecond, f.LeaseMedian.Round(time.Microsecond),
		f.LeaseP99.Round(time.Microsecond),
		f.LeaseMax.Round(time.Microsecond), f.Lost)
}

// Run runs a simulation. It needs 6 descriptors for each worker.
func Run(ctx context.Context, o Options) (f Figures, err error) {
	if o.Workers < 1 || o.Blocks < 1 {
		return f, errors.New("workersim: Workers and Blocks are at least 1")
	}
	o.Slots = max(o.Slots, 1)
	if o.Accept == nil {
		o.Accept = func(context.Context, *coordinator.Result) error { return nil }
	}
	const build = "workersim"
	c, err := coordinator.New(coordinator.Options{
		Blocks: o.Blocks, OnDemand: true, NoCopies: true, Workers: o.Workers, Build: build, Times: o.Times,
		MaxResult: int64(o.BodyBytes), MaxBytes: int64(max(o.BodyBytes, 1)) * 64,
		Accept: o.Accept,
	})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var at worker.Endpoint
	if o.TLS {
		if at, err = c.Listen("127.0.0.1:0"); err != nil {
			return f, err
		}
	}
	s := &simulation{o: o, computer: empty{[][]byte{make([]byte, o.BodyBytes)}, o.Compute},
		errs: make(chan error, o.Workers)}
	var workers sync.WaitGroup
	defer workers.Wait()
	begin := time.Now()
	for i := range o.Workers {
		e := &client.Environment{Name: worker.WorkerName("sim", i), Kind: "sim", Slots: o.Slots, Endpoint: at}
		if !o.TLS {
			if e.Connections, err = connections(c); err != nil {
				cancel()
				return f, err
			}
		}
		workers.Go(func() { s.errs <- s.work(ctx, e, build) })
	}
	for n := 0; n < o.Workers; {
		select {
		case err := <-s.errs:
			cancel()
			return f, fmt.Errorf("workersim: a worker ended early: %w", err)
		case <-time.After(20 * time.Millisecond): // Status takes processor time that the workers need
		}
		// All workers wait for a first block: the measurement does not include their start.
		n = c.Status().Polls
	}
	f.Joining = time.Since(begin)

	begin = time.Now()
	for b := range o.Blocks {
		c.Offer(b, nil)
	}
	if err := c.Wait(ctx); err != nil {
		return f, err
	}
	f.Wall = time.Since(begin)
	f.Workers, f.Blocks = o.Workers, o.Blocks
	f.PerSecond = float64(o.Blocks) / f.Wall.Seconds()
	f.Lost = c.Status().LostWorkers
	for range o.Workers {
		if err := <-s.errs; err != nil {
			return f, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.leases)
	if n := len(s.leases); n > 0 {
		f.LeaseMedian, f.LeaseP99, f.LeaseMax = s.leases[n/2], s.leases[n*99/100], s.leases[n-1]
	}
	return f, nil
}

func connections(c *coordinator.Coordinator) (conns []net.Conn, err error) {
	for range 3 {
		f, err := c.Connect()
		if err != nil {
			return nil, err
		}
		conn, err := net.FileConn(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

type simulation struct {
	o        Options
	computer empty
	errs     chan error

	mu     sync.Mutex
	leases []time.Duration
}

func (s *simulation) work(ctx context.Context, e *client.Environment, build string) error {
	var leases []time.Duration
	first := true
	err := client.Work(ctx, client.Options{
		Environment: e, Build: build, Times: s.o.Times,
		Open: func(context.Context, client.JoinInfo) (client.Handler, error) { return s.computer, nil },
		OnLease: func(took time.Duration, blocks int) {
			if blocks > 0 && !first { // the first request waited until all workers had joined
				leases = append(leases, took)
			}
			first = false
		},
	})
	s.mu.Lock()
	s.leases = append(s.leases, leases...)
	s.mu.Unlock()
	return err
}

// empty is a handler whose results are all the same.
type empty struct {
	body  [][]byte
	takes time.Duration
}

func (e empty) Read(context.Context, client.Lease) (any, error) { return nil, nil }

func (e empty) Compute(ctx context.Context, _ int, _ any) ([][]byte, error) {
	if e.takes > 0 {
		t := time.NewTimer(e.takes)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return e.body, nil
}

func (e empty) Discard(any)            {}
func (e empty) Notify(json.RawMessage) {}
func (e empty) Close() ([]byte, error) { return nil, nil }
