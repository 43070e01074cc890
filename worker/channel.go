package worker

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
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Options of a channel.
type Options struct {
	// Job is told to each worker that joins; nil: null.
	Job json.RawMessage
	// Blocks are numbered from 0.
	Blocks int
	// Done tells of blocks that are done already, as those of a resumed run; nil: none. It is called once for each, by NewChannel.
	Done func(block int) bool
	// OnDemand has a block given out only after Offer; otherwise all are given out in order.
	OnDemand bool
	// MaxResult bounds the body of one result, MaxBytes the bodies of all results that are in memory at once.
	MaxResult, MaxBytes int64
	// Accept is given the result of each block, once, several at a time. The worker that sent it waits with its next block in the same slot until Accept returns. An error
	// ends the run. Its context ends with the run.
	Accept func(ctx context.Context, r *Result) error
	// Released is told, once, that a block is done and that no worker has it any more: its payload's arrays may be used again. It may call Offer. nil: nobody is told.
	Released func(block int)
	// Note returns what has been settled meanwhile; nil: nothing. Workers are told with answers to leases, before these leases, and to heartbeats. It is called often, by
	// several goroutines. One of more than 1 MiB ends the run.
	Note func() json.RawMessage
	// Build is the build that workers must be of, and this program's GOOS/GOARCH their architecture, unless Mixed.
	Build string
	Mixed bool
	// Workers are expected to join.
	Workers int
	// Barrier: when it is not 0, no block is given out before all Workers are there, and the run fails when they are not after so long.
	Barrier time.Duration
	// Single has each worker take one block, and end.
	Single bool
	// NoCopies has no block given to a second worker as long as the first has it.
	NoCopies bool
	// Reissues is how often a block whose worker was lost is given out again; 0: 3 times; less: never. The last time its worker has no other block, so that
	// the one that LostError names is the one that can't be done, and none that lay beside it. (Where a copy of it was lost too, it may be given out once more.)
	Reissues int
	// Strangers is how many connections may be there that have shown no token; 0: 64.
	Strangers int
	Times     Times
	Logger    *slog.Logger // nil: nothing is logged
}

// Result of a block.
type Result struct {
	Block        int
	Worker, Host string
	// Body is what the worker's Compute returned; it may be used until Accept returns.
	Body []byte
}

const (
	defaultReissues  = 3
	defaultStrangers = 64
)

// Channel gives blocks to workers and takes their results. Its methods may be called by several goroutines at once.
//
// Of the locks, mu may be taken when noteMu is held, and the gate's when mu is, not the other way round. No callback of Options is called with mu held.
type Channel struct {
	o     Options
	times Times
	log   *slog.Logger
	token string
	id    *identity
	gate  *gate
	room  *semaphore.Weighted
	pairs *pairListener
	https *http.Server // by TLS
	local *http.Server // over inherited connections
	work  sync.WaitGroup
	pool  sync.Pool
	held  atomic.Int64 // bytes of bodies

	ctx    context.Context // of callbacks; ends with the run
	cancel context.CancelCauseFunc
	over   chan struct{} // closed when the run has ended

	noteMu sync.Mutex
	note   json.RawMessage
	noted  uint64

	mu        sync.Mutex
	schedule  *schedule
	payloads  map[int]json.RawMessage
	accepting map[int]chan struct{} // of claimed blocks; closed when they are done
	members   []*member             // by number
	expected  map[string]*expected  // by name
	order     []*expected
	announced bool // Run has told which workers there will be
	polls     polls
	open      bool // blocks are given out: there is no barrier, or it was reached
	starting  bool // Run starts workers for lost blocks (Single)
	more      chan struct{}
	barrier   time.Time // when the workers must have joined; zero: not yet known
	failing   *failing
	ended     bool
	cause     error // of the end; nil: all blocks are done
	after     []error
	afterN    int // errors that after has no room for
	closed    bool
	conns     int
	deserted  *sync.Cond // conns became 0
	lost      int64
	refused   Refused
	barren    int // workers that ended without having had a block
	listen    []net.Listener
}

// NewChannel makes a channel. It must be closed.
func NewChannel(o Options) (*Channel, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Reissues == 0 {
		o.Reissues = defaultReissues
	}
	o.Reissues = max(o.Reissues, 0)
	if o.Strangers == 0 {
		o.Strangers = defaultStrangers
	}
	if o.Job == nil {
		o.Job = json.RawMessage("null")
	}
	c := &Channel{
		o: o, times: o.Times.orDefaults(), log: o.Logger, token: newToken(),
		room:     semaphore.NewWeighted(o.MaxBytes),
		over:     make(chan struct{}),
		schedule: newSchedule(o.Blocks, o.Done, o.OnDemand, !o.NoCopies, o.Reissues),
		payloads: map[int]json.RawMessage{}, accepting: map[int]chan struct{}{},
		expected: map[string]*expected{},
		open:     o.Barrier == 0,
		more:     make(chan struct{}, 1),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.deserted = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.gate = newGate(o.Strangers, c.times.Stranger)
	c.pairs = newPairListener()
	c.local = c.newServer()
	c.https = c.newServer()
	c.https.ReadHeaderTimeout = c.times.Silence
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
			errs = append(errs, errors.New("worker: "+text))
		}
	}
	wrong(o.Blocks < 0, "Blocks are less than 0")
	wrong(o.Accept == nil, "Accept is nil")
	wrong(o.MaxResult < 0, "MaxResult is less than 0")
	wrong(o.MaxBytes < o.MaxResult, "MaxBytes is less than MaxResult: no result would have room")
	wrong(o.Workers < 1, "Workers are less than 1")
	wrong(o.Barrier < 0, "Barrier is less than 0")
	wrong(o.Single && o.Barrier > 0, "Barrier with Single: workers for one block each need not be there all at once")
	wrong(o.Strangers < 0, "Strangers are less than 0")
	t := o.Times.orDefaults()
	wrong(2*t.Heartbeat > t.Silence, "Times.Silence is less than two heartbeats")
	wrong(o.Job != nil && !json.Valid(o.Job), "Job is not JSON")
	wrong(len(o.Job) > maxJobBytes, fmt.Sprintf("Job is larger than %d bytes", maxJobBytes))
	return errors.Join(errs...)
}

// Offer has a block given out. With OnDemand each block that is not done is offered once; its payload goes to its worker, and is kept
// until the block is done. One of more than 8 MiB ends the run.
func (c *Channel) Offer(block int, payload json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.o.OnDemand || block < 0 || block >= c.o.Blocks {
		panic(fmt.Sprintf("worker: block %d was offered to a channel of %d blocks, OnDemand: %v", block, c.o.Blocks, c.o.OnDemand))
	}
	if c.ended || c.schedule.blocks[block].phase == done {
		return
	}
	if len(payload) > maxPayload {
		c.endLocked(fmt.Errorf("worker: block %d: its payload has %d bytes; workers take %d at most", block, len(payload), maxPayload))
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

// Wait returns when all blocks are done (nil), when a worker has reported a Failure, when a LostError can't be helped, when Accept has failed, or
// when ctx ends, whose cause it returns then. What came after the cause of the end is in a RunError around it. The run has
// ended when Wait returns, but its workers have to be stopped and the channel closed. Barrier counts from the first call.
func (c *Channel) Wait(ctx context.Context) error {
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

// result is how the run has ended, and all that came after.
func (c *Channel) result() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return nil
	}
	after := slices.Clone(c.after)
	if c.afterN > 0 {
		after = append(after, fmt.Errorf("%d more errors", c.afterN))
	}
	return afterwards(c.cause, after...)
}

// end ends the run; the first cause stands, later ones come after it.
func (c *Channel) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(cause)
}

func (c *Channel) endLocked(cause error) {
	if c.ended {
		c.consequence(cause)
		return
	}
	c.ended, c.cause = true, cause
	if f := c.failing; f != nil && cause != nil && cause != f.err {
		// It was the first, and waited for word of how its workers ended.
		f.err.Exits = c.exits(f)
		c.cause = f.err
		c.consequence(cause)
	}
	if cause == nil {
		cause = errors.New("worker: all blocks are done")
	}
	c.cancel(cause)
	close(c.over)
	for _, m := range c.members {
		m.nudge()
	}
}

// maxAfter bounds the errors that are told of a run after its first.
const maxAfter = 4

func (c *Channel) consequence(err error) {
	// That the context of the run has ended is no news.
	if err == nil || c.cause == nil || errors.Is(err, c.cause) || errors.Is(err, errClosed) || errors.Is(err, context.Canceled) {
		return
	}
	if len(c.after) < maxAfter {
		c.after = append(c.after, err)
	} else {
		c.afterN++
	}
}

var errClosed = errors.New("worker: the channel was closed")

// Close ends the run if it has not ended, tells the workers, and closes all connections. When it returns no goroutine of the channel is left; it waits for calls of Accept.
func (c *Channel) Close() error {
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
	// Answers under way, most of them that the run has ended, are sent.
	ctx, cancel := context.WithTimeout(context.Background(), c.times.Farewell/2)
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
	// Connections that came in while the servers were closed.
	_ = c.local.Close()
	_ = c.https.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.conns > 0 {
		c.deserted.Wait()
	}
	return nil
}

// Status is what the channel knows now.
func (c *Channel) Status() Status {
	s := Status{Strangers: c.gate.strangers()}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Refused = c.refused
	s.Refused.Crowded = c.gate.crowded.Load()
	s.Blocks, s.Done = c.o.Blocks, c.o.Blocks-c.schedule.undone
	s.Held, s.Waiting = c.schedule.held, c.schedule.ready+c.schedule.waiting
	given := c.schedule.given
	s.LostWorkers, s.Reissued, s.Copies, s.Superseded = c.lost, given.reissued, given.copied, given.superseded
	s.Polls, s.BodyBytes = len(c.polls.waiting), c.held.Load()
	if c.ended {
		s.Ended = c.endWord()
	}
	for _, e := range c.order {
		if !e.joined {
			state := StateStarting
			if e.exit != nil {
				state = StateGone
			}
			s.Workers = append(s.Workers, WorkerStatus{Name: e.name, Kind: e.kind, Number: -1, State: state})
		}
	}
	for _, m := range c.members {
		s.Workers = append(s.Workers, WorkerStatus{
			Name: m.name, Kind: m.kind, Host: m.host, Arch: m.arch, Number: m.number, PID: m.pid, Cores: m.cores, Slots: m.slots,
			State: m.state, Joined: m.joined, Heard: m.heard, Held: c.schedule.heldBy(m.number), Done: m.done, Bytes: m.bytes,
		})
	}
	return s
}

// endWord is how workers are told of the end.
func (c *Channel) endWord() string {
	if c.cause != nil {
		return endFailed
	}
	return endDone
}

// noteFor returns the note, if it has changed since a worker was told.
func (c *Channel) noteFor(noted uint64) (json.RawMessage, uint64) {
	if c.o.Note == nil {
		return nil, 0
	}
	c.noteMu.Lock()
	defer c.noteMu.Unlock()
	n := c.o.Note()
	switch {
	case len(n) > maxNote:
		c.end(fmt.Errorf("worker: the note has %d bytes; workers take %d at most", len(n), maxNote))
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

// buffer for a body of n bytes; the function gives it back. It is not much larger than the body, whose length is what counts of MaxBytes.
func (c *Channel) buffer(n int64) ([]byte, func()) {
	if n <= stride {
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

func thisArch() string { return runtime.GOOS + "/" + runtime.GOARCH }
