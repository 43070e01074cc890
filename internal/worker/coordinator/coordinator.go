package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"leat/internal/worker/protocol"
	"leat/internal/worker/runerror"
	"leat/worker"
)

// Options configures a Coordinator.
type Options struct {
	// Job is sent to each worker that joins; nil: null.
	Job json.RawMessage
	// Blocks is the number of blocks, which are numbered from 0.
	Blocks int
	// Done reports whether a block is done already, as in a resumed run; nil: none is. New
	// calls it once per block.
	Done func(block int) bool
	// OnDemand leases a block only after Offer; otherwise all blocks are leased in order.
	OnDemand bool
	// MaxResult bounds the body of one result in bytes, MaxBytes the bodies of all results in
	// memory.
	MaxResult, MaxBytes int64
	// MaxValue, if above 0, lets each worker leave with a value of the blocks that it has computed
	// (Coordinator.Values). It bounds one value in bytes, MaxValues all together. Blocks are then
	// never copied, and the run ends when the values of all accepted blocks have arrived. It fails
	// if one can't arrive any more.
	MaxValue, MaxValues int64
	// Accept receives the result of each block once; calls are concurrent. The sending worker does
	// not compute another block in that slot until Accept returns. An error ends the run. ctx ends
	// with the run.
	Accept func(ctx context.Context, r *Result) error
	// Released is called once when a block is done and no worker holds it: the arrays of its
	// payload may be reused. It may call Offer. nil: not called.
	Released func(block int)
	// Note returns the current note, nil if there is none. Workers receive a changed note before
	// the leases of the same answer, and with heartbeats. It is called often and concurrently. A
	// note of more than 1 MiB ends the run.
	Note func() json.RawMessage
	// Build is the build that workers must have; their architecture must be this program's
	// GOOS/GOARCH. AllowMixedBuilds accepts others.
	Build            string
	AllowMixedBuilds bool
	// Workers is the number of workers that are expected to join.
	Workers int
	// Barrier, if not 0, delays the first lease until all Workers have joined; the run fails if
	// they have not after this time.
	Barrier time.Duration
	// Holds returns how many blocks a worker with this number of slots may hold: those that it
	// computes and those that it reads ahead. nil: one more than it has slots, which is always
	// allowed. More than that are leased only while more blocks are ready than the other workers
	// have slots.
	Holds func(slots int) int
	// OneBlockPerJob lets each worker compute one block and leave.
	OneBlockPerJob bool
	// NoCopies prevents leasing a block to a second worker while the first one holds it.
	NoCopies bool
	// Reissues is how often a block is leased again after its worker was lost; 0: 3 times,
	// negative: never. The last time its worker holds no other block, so that LostError names the
	// block that caused the loss. If a copy of the block was lost too, it may be leased once more.
	Reissues int
	// MaxUnauthenticated bounds the open connections that have not sent the token; 0: 512, or fewer
	// if the limit of open files is low. Further connections wait.
	MaxUnauthenticated int
	Times              protocol.Times
	Logger             *slog.Logger // nil: nothing is logged
}

// Result is the result of a block.
type Result struct {
	Block        int
	Worker, Host string
	Number       int // of the worker, as in client.JoinInfo
	// Body is what the worker's Compute returned; it is valid until Accept returns.
	Body []byte
}

const defaultReissues = 3

// Coordinator leases blocks to workers and receives their results. Its methods are safe for
// concurrent use. It must be closed.
//
// Lock order: noteMu before mu before gate.mu. Callbacks of Options run without mu.
type Coordinator struct {
	o      Options
	times  protocol.Times
	log    *slog.Logger
	token  string
	id     *identity
	gate   *gate
	memory *semaphore.Weighted
	pairs  *pairListener
	https  *http.Server // over TLS
	local  *http.Server // over inherited connections
	work   sync.WaitGroup
	pool   sync.Pool
	held   atomic.Int64 // bytes of bodies in memory

	ctx    context.Context // of callbacks; ends with the run
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when the run has ended

	noteMu sync.Mutex
	note   json.RawMessage
	noted  uint64

	mu         sync.Mutex
	schedule   *schedule
	collecting bool // all blocks are done, and workers should leave with their values
	values     values
	payloads   map[int]json.RawMessage
	accepting  map[int]chan struct{} // of claimed blocks; closed when they are done
	members    []*member             // by number
	expected   map[string]*expected  // by name
	order      []*expected
	announced  bool // Run has registered the workers that it starts
	polls      polls
	open       bool // blocks are leased: there is no barrier, or it was reached
	starting   bool // Run starts workers
	jobs       []string
	more       chan struct{}
	replace    replacements
	barrier    time.Time // deadline of joining; zero: not yet known
	failing    *failing
	ended      bool
	cause      error // of the end; nil: all blocks are done
	later      []error
	moreLater  int // errors in excess of maxLater
	closed     bool
	conns      int
	noConns    *sync.Cond // signaled when conns becomes 0
	lost       int64
	refused    worker.Refused
	exitedIdle int // workers that ended without having held a block
	listen     []net.Listener
}

// New returns a coordinator, which must be closed. It fails if options are invalid, naming
// all of them.
func New(o Options) (*Coordinator, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Reissues == 0 {
		o.Reissues = defaultReissues
	}
	o.Reissues = max(o.Reissues, 0)
	if o.MaxUnauthenticated == 0 {
		o.MaxUnauthenticated = defaultUnauthenticated()
	}
	if o.Job == nil {
		o.Job = json.RawMessage("null")
	}
	c := &Coordinator{
		o: o, times: o.Times.OrDefaults(), log: o.Logger, token: newToken(),
		memory:   semaphore.NewWeighted(o.MaxBytes),
		over:     make(chan struct{}),
		schedule: newSchedule(o.Blocks, o.Done, o.OnDemand, !o.NoCopies && o.MaxValue == 0, o.Reissues, o.Workers),
		payloads: map[int]json.RawMessage{}, accepting: map[int]chan struct{}{},
		expected: map[string]*expected{},
		open:     o.Barrier == 0,
		more:     make(chan struct{}, 1),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.noConns = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.gate = newGate(o.MaxUnauthenticated)
	c.pairs = newPairListener()
	c.local = c.newServer()
	c.https = c.newServer()
	c.https.ReadHeaderTimeout = c.times.TokenTimeout // covers the TLS handshake too
	c.work.Go(func() { _ = c.local.Serve(c.pairs) })
	c.work.Go(c.watch)
	if c.schedule.undone == 0 {
		c.end(nil)
	}
	return c, nil
}

func (o *Options) check() error {
	var errs []error
	wrong := func(is bool, text string) {
		if is {
			errs = append(errs, errors.New(text))
		}
	}
	wrong(o.Blocks < 0, "Blocks is negative")
	wrong(o.Accept == nil, "Accept is nil")
	wrong(o.MaxResult < 0, "MaxResult is negative")
	wrong(o.MaxBytes < o.MaxResult, "MaxBytes is less than MaxResult")
	wrong(o.MaxValue < 0 || o.MaxValue > protocol.MaxValue,
		fmt.Sprintf("MaxValue is not within 0 to %d", protocol.MaxValue))
	wrong(o.MaxValues < o.MaxValue, "MaxValues is less than MaxValue")
	wrong(o.Workers < 1, "Workers is less than 1")
	wrong(o.Barrier < 0, "Barrier is negative")
	wrong(o.OneBlockPerJob && o.Barrier > 0,
		"Barrier and OneBlockPerJob exclude each other")
	wrong(o.MaxUnauthenticated < 0, "MaxUnauthenticated is negative")
	t := o.Times.OrDefaults()
	wrong(2*t.Heartbeat > t.HeartbeatTimeout, "Times.HeartbeatTimeout is less than two heartbeats")
	wrong(o.Job != nil && !json.Valid(o.Job), "Job is not JSON")
	wrong(len(o.Job) > protocol.MaxJob, fmt.Sprintf("Job is longer than %d bytes", protocol.MaxJob))
	return errors.Join(errs...)
}

// Offer makes a block available. With OnDemand each block that is not done is offered once; payload
// is sent to its worker and kept until the block is done. A payload of more than 8 MiB ends the
// run. Offer panics if the block is out of range or was offered before, or without OnDemand.
func (c *Coordinator) Offer(block int, payload json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.o.OnDemand || block < 0 || block >= c.o.Blocks {
		panic(fmt.Sprintf("worker: block %d was offered to a coordinator of %d blocks, OnDemand: %v", block, c.o.Blocks,
			c.o.OnDemand))
	}
	if c.ended || c.schedule.blocks[block].phase == done {
		return
	}
	if len(payload) > protocol.MaxPayload {
		c.endLocked(fmt.Errorf("block %d: payload has %d bytes, at most %d are allowed", block,
			len(payload), protocol.MaxPayload))
		return
	}
	if !c.schedule.offer(block) {
		panic(fmt.Sprintf("worker: block %d was offered twice", block))
	}
	c.payloads[block] = payload
	if c.schedule.waiting == 0 {
		c.polls.wake(math.MaxInt) // copies are given from now on
	} else {
		c.polls.wake(1)
	}
}

// Wait waits for the end of the run. It returns nil when all blocks are done and their values have
// arrived. Otherwise it returns the error that ended the run, such as a *worker.Failure that a
// worker reported, a *worker.LostError, an error of Accept, or the cause of ctx. If there are later
// errors, it returns a *worker.RunError with all of them. The caller then stops the workers and
// closes the coordinator. Barrier counts from the first call.
func (c *Coordinator) Wait(ctx context.Context) error {
	c.mu.Lock()
	if c.o.Barrier > 0 && c.barrier.IsZero() {
		c.barrier = time.Now().Add(c.o.Barrier)
	}
	c.mu.Unlock()
	select {
	case <-c.over:
	case <-ctx.Done():
		c.end(context.Cause(ctx))
	}
	return c.result()
}

// result returns the cause of the end together with later errors.
func (c *Coordinator) result() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return nil
	}
	after := slices.Clone(c.later)
	if c.moreLater > 0 {
		after = append(after, fmt.Errorf("%d more errors", c.moreLater))
	}
	return runerror.Join(c.cause, after...)
}

// end ends the run. The first cause is kept; later ones are added to it.
func (c *Coordinator) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(cause)
}

func (c *Coordinator) endLocked(cause error) {
	if c.ended {
		c.addLater(cause)
		return
	}
	c.ended, c.cause = true, cause
	if f := c.failing; f != nil && cause != nil && cause != f.err {
		// The loss came first; it was waiting for the exits of its workers.
		f.err.Exits = c.exits(f)
		c.cause = f.err
		c.addLater(cause)
	}
	if cause == nil {
		cause = errors.New("all blocks are done")
	}
	c.cancel(cause)
	close(c.over)
	for _, m := range c.members {
		m.wakeHeartbeat()
	}
}

// maxLater bounds the errors kept after the first.
const maxLater = 4

func (c *Coordinator) addLater(err error) {
	// The end of the run's own context is expected.
	if err == nil || c.cause == nil || errors.Is(err, c.cause) || errors.Is(err, errClosed) || errors.Is(err,
		context.Canceled) {
		return
	}
	if len(c.later) < maxLater {
		c.later = append(c.later, err)
	} else {
		c.moreLater++
	}
}

var errClosed = errors.New("coordinator closed")

// Close ends the run if it has not ended, informs the workers, and closes all connections. It waits
// for calls of Accept, and no goroutine of the coordinator is left when it returns. It is
// idempotent.
func (c *Coordinator) Close() error {
	c.end(errClosed)
	c.mu.Lock()
	already := c.closed
	c.closed = true
	listen := c.listen
	c.mu.Unlock()
	if already {
		return nil
	}
	c.gate.close()
	for _, l := range listen {
		_ = l.Close()
	}
	// Wait for answers in progress, most of which report the end.
	ctx, cancel := context.WithTimeout(context.Background(), c.times.ShutdownGrace/2)
	defer cancel()
	var servers sync.WaitGroup
	for _, s := range []*http.Server{c.local, c.https} {
		servers.Go(func() {
			if s.Shutdown(ctx) != nil {
				_ = s.Close()
			}
		})
	}
	servers.Wait()
	_ = c.pairs.Close()
	c.work.Wait()
	// Close connections that were accepted while the servers were closing.
	_ = c.local.Close()
	_ = c.https.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.conns > 0 {
		c.noConns.Wait()
	}
	return nil
}

// addJobs adds the name of a fleet's jobs to the status.
func (c *Coordinator) addJobs(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, name)
}

// Status returns a snapshot of the run.
func (c *Coordinator) Status() worker.Status {
	s := worker.Status{Unauthenticated: c.gate.unauthenticated()}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Refused, s.Jobs = c.refused, slices.Clone(c.jobs)
	s.Blocks, s.Done = c.o.Blocks, c.o.Blocks-c.schedule.undone
	s.Held, s.Waiting = c.schedule.held, c.schedule.ready+c.schedule.waiting
	given := c.schedule.given
	s.ReplacedWorkers = c.replace.count
	s.LostWorkers, s.Reissued, s.Copies, s.Superseded = c.lost, given.reissued, given.copied, given.superseded
	s.Polls, s.BodyBytes = len(c.polls.waiting), c.held.Load()
	if c.ended {
		s.Ended = c.endName()
	}
	for _, e := range c.order {
		if !e.joined {
			state := worker.StateStarting
			if e.exit != nil {
				state = worker.StateGone
			}
			s.Workers = append(s.Workers, worker.WorkerStatus{Name: e.name, Kind: e.kind, Number: -1, State: state})
		}
	}
	for _, m := range c.members {
		s.Workers = append(s.Workers, worker.WorkerStatus{
			Name: m.name, Kind: m.kind, Host: m.host, Arch: m.arch, Number: m.number, PID: m.pid, Cores: m.cores,
			Slots: m.slots,
			State: m.state, Joined: m.joined, Heard: m.heard, Held: c.schedule.heldBy(m.number), Done: m.done,
			Bytes: m.bytes,
		})
	}
	return s
}

// endName returns the name of the end in messages: protocol.EndDone or EndFailed.
func (c *Coordinator) endName() string {
	if c.cause != nil {
		return protocol.EndFailed
	}
	return protocol.EndDone
}

// noteFor returns the note and its number if it is newer than noted.
func (c *Coordinator) noteFor(noted uint64) (json.RawMessage, uint64) {
	if c.o.Note == nil {
		return nil, 0
	}
	c.noteMu.Lock()
	defer c.noteMu.Unlock()
	n := c.o.Note()
	switch {
	case len(n) > protocol.MaxNote:
		c.end(fmt.Errorf("note has %d bytes, at most %d are allowed", len(n), protocol.MaxNote))
		return nil, 0
	case n != nil && !bytes.Equal(n, c.note):
		c.note = slices.Clone(n)
		c.noted++
	}
	if c.noted <= noted {
		return nil, 0
	}
	return c.note, c.noted
}

// buffer returns a buffer of n bytes and a function that returns it to the pool. Its capacity is at
// most 2n, since only n counts towards MaxBytes.
func (c *Coordinator) buffer(n int64) ([]byte, func()) {
	if n <= bodyStep {
		return make([]byte, n), func() {}
	}
	p, _ := c.pool.Get().(*[]byte)
	if p == nil || int64(cap(*p)) < n || int64(cap(*p)) > 2*n {
		if p != nil && int64(cap(*p)) > 2*n {
			c.pool.Put(p)
		}
		b := make([]byte, n)
		p = &b
	}
	return (*p)[:n], func() { c.pool.Put(p) }
}
