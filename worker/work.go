package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// Lease is a block that a worker was given.
type Lease struct {
	Block   int
	Payload json.RawMessage // of Channel.Offer
}

// Joined is what a worker learns from its run.
type Joined struct {
	Worker  string // its name
	Workers int    // that the run expects
	Number  int    // in the order of joining, from 0; workers that take the place of lost ones go on counting
	Slots   int    // blocks it computes at once
	Job     json.RawMessage
}

// Computer does a worker's work.
type Computer interface {
	// Read makes ready what Compute needs. It is called for several blocks at once (WorkOptions.Readers). ctx ends when nobody wants the block any more.
	Read(ctx context.Context, l Lease) (any, error)
	// Compute is given what Read returned, and returns the result's body. In one slot (0 to Slots-1) one block is computed at a time; the body, and what it
	// refers to, is the channel's until the slot's next Compute, which is called when the run has taken it. ctx ends as that of Read does.
	Compute(ctx context.Context, slot int, read any) (body [][]byte, err error)
	// Noted is told when Options.Note has changed, before the blocks that are given out after the change are read. One call at a time.
	Noted(note json.RawMessage)
	// Close is called when no other method is running, nor will be.
	Close() error
}

// WorkOptions say how Work works.
type WorkOptions struct {
	Environment *Environment
	// Build of this program, which the run compares with its own.
	Build string
	// Slots are computed at once; 0: as Environment says. Readers read at once; 0: one.
	Slots, Readers int
	// Open makes the computer, once. Its error ends the run.
	Open   func(ctx context.Context, j Joined) (Computer, error)
	Logger *slog.Logger // nil: nothing is logged
	// Leased is told of each answer to a request for blocks: how long it took, and how many blocks came. nil: nobody is told.
	Leased func(took time.Duration, blocks int)
	// Times: of them Silence bounds how long the run may take to answer at first, and Farewell how long functions may take to end. The others are the run's.
	Times Times
}

// Causes of a worker's end that are no errors.
var (
	errDone   = errors.New("all blocks are done")
	errEnded  = errors.New("the run has ended")
	errServed = errors.New("its block is done")
)

// ErrLost is returned by Work when the run has given the worker up, since it was silent or its connections had ended.
var ErrLost = errors.New("worker: the run took this worker for lost")

// Work joins a run, and computes blocks until the run has ended (nil), ctx ends (its cause), or something is wrong: an error of Open, Read or
// Compute, which the run is told of and ends with; the run can't be reached, or was not for Times.Silence, or with inherited connections one of them has ended; ErrLost. An error of Read
// or Compute is told with its stack where it has one (a method Stack() []byte, as StackError's) and with its Code; a panic is told as an error. When
// nobody wants a block any more the contexts of its Read and Compute end. A function that goes on nevertheless is left running when Work returns, and
// the computer is not closed then: the process should end.
func Work(ctx context.Context, o WorkOptions) (err error) {
	w := &work{o: o, log: o.Logger, times: o.Times.orDefaults(), held: map[uint64]*item{}, freed: make(chan struct{}, 1)}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	e := o.Environment
	if e == nil || o.Open == nil {
		return errors.New("worker: Work needs an Environment and Open")
	}
	defer func() {
		for _, l := range w.all {
			l.close()
		}
		for _, c := range e.Connections {
			_ = c.Close() // that of a link is closed already
		}
	}()
	if err := w.connect(e); err != nil {
		return err
	}
	var cancelLinks context.CancelFunc
	w.links, cancelLinks = context.WithCancel(context.WithoutCancel(ctx))
	w.ctx, w.stop = context.WithCancelCause(w.links)
	defer w.stop(nil)
	defer cancelLinks()
	// The links live on when ctx ends: the worker says farewell by them.
	defer context.AfterFunc(ctx, func() { w.stop(context.Cause(ctx)) })()

	if err := w.join(w.ctx); err != nil {
		return w.closing(err)
	}
	w.running.Go(func() { w.loop(w.beat, true) })
	opened := make(chan struct{})
	w.running.Go(func() {
		defer close(opened)
		w.open()
	})
	select {
	case <-opened:
		if w.ctx.Err() == nil {
			w.begin()
		}
	case <-w.ctx.Done():
	}
	<-w.ctx.Done()
	cause := context.Cause(w.ctx)
	if !errors.Is(cause, errLink) && !errors.Is(cause, ErrLost) {
		w.leave()
	}
	cancelLinks()
	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	t := time.NewTimer(w.times.Farewell)
	defer t.Stop()
	select {
	case <-ended:
		if w.computer != nil {
			err = w.computer.Close()
		}
	case <-t.C:
		w.log.Warn("a function does not end", "worker", e.Name)
	}
	w.mu.Lock()
	if errors.Is(cause, errEnded) && w.failure != nil {
		cause = w.failure // the run has ended with it, and said so at once
	}
	w.mu.Unlock()
	return afterwards(w.closing(cause), err)
}

type work struct {
	o       WorkOptions
	log     *slog.Logger
	times   Times
	links   context.Context // of messages
	ctx     context.Context // of the work; ends before links
	stop    context.CancelCauseFunc
	running sync.WaitGroup

	beats, leases *link
	results       chan *link // that are free
	all           []*link

	number    int
	slots     int
	limit     int // of leases
	single    bool
	maxResult int64
	joined    Joined
	computer  Computer
	todo      chan *item
	ready     chan *item
	freed     chan struct{} // a lease has ended

	noteMu sync.Mutex
	noted  uint64

	mu      sync.Mutex
	held    map[uint64]*item
	dropped []uint64 // leases that the run has not been told of
	took    bool
	opened  bool
	failure error // that the run was told of
}

// item is a block on its way through the worker.
type item struct {
	id     uint64
	lease  Lease
	ctx    context.Context
	cancel context.CancelFunc
	read   any
}

// closing is the error of Work for a cause of its end.
func (w *work) closing(cause error) error {
	name := w.o.Environment.Name
	switch {
	case errors.Is(cause, errDone), errors.Is(cause, errServed), errors.Is(cause, errEnded):
		w.log.Info("the worker ends", "worker", name, "why", cause)
		return nil
	case errors.Is(cause, errLink):
		return fmt.Errorf("worker: %s: %w", name, cause)
	}
	return cause
}

func (w *work) connect(e *Environment) error {
	w.results = make(chan *link, maxConnections)
	w.slots = w.o.Slots
	if w.slots == 0 {
		w.slots = e.Slots
	}
	if w.slots == 0 {
		w.slots = min(cores(), maxSlots)
	}
	if c := e.Connections; len(c) > 0 {
		if len(c) < 3 || len(c) > maxConnections {
			return fmt.Errorf("worker: %d connections were inherited; a worker needs 3 to %d", len(c), maxConnections)
		}
		w.beats, w.leases = w.link(nil, c[0]), w.link(nil, c[1])
		for _, c := range c[2:] {
			w.results <- w.link(nil, c)
		}
		return nil
	}
	if err := e.Invitation.check(); err != nil {
		return err
	}
	config, err := clientConfig(e.Invitation.Pin)
	if err != nil {
		return err
	}
	d := &dialer{invitation: e.Invitation, config: config, patience: w.times.Silence / 4}
	w.beats, w.leases = w.link(d, nil), w.link(d, nil)
	for range min(w.slots, 4) { // bodies of several slots are on their way at once
		w.results <- w.link(d, nil)
	}
	return nil
}

func (w *work) link(d *dialer, inherited net.Conn) *link {
	l := newLink(d, inherited)
	w.all = append(w.all, l)
	return l
}

// join tells the run of this worker, and is told the job. It tries for Times.Silence.
func (w *work) join(ctx context.Context) error {
	e := w.o.Environment
	host, _ := os.Hostname()
	if len(host) > 255 || !printable(host) {
		host = ""
	}
	m := joinMessage{
		Protocol: protocol, Name: e.Name, Kind: e.Kind, Build: w.o.Build, Arch: thisArch(), Host: host, PID: os.Getpid(),
		Cores: min(cores(), maxCores), Slots: w.slots,
	}
	if m.Kind == "" {
		m.Kind = m.Name
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	until := time.Now().Add(w.times.Silence)
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var a joinAnswer
	var last error
	err := w.leases.retry(within, func(ctx context.Context) (err error) {
		a, err = tell[joinAnswer](ctx, w.leases, pathJoin, m, w.times.Silence, maxJobBytes+maxMessage)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err
	})
	switch {
	case refusedWith(err, "ended"):
		return errEnded
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return fmt.Errorf("worker: %s: the run could not be reached for %v: %w", e.Name, w.times.Silence, errors.Join(errLink, last))
	case err != nil:
		return fmt.Errorf("worker: %s could not join the run: %w", e.Name, err)
	}
	w.number, w.slots, w.single, w.maxResult = a.Worker, min(w.slots, a.Slots), a.Single, a.MaxResult
	w.times.Heartbeat, w.times.Silence, w.times.Poll = duration(a.Heartbeat), duration(a.Silence), duration(a.Poll)
	if w.limit = w.slots + 1; w.single {
		w.limit = 1
	}
	w.todo, w.ready = make(chan *item, w.limit), make(chan *item, w.limit)
	w.joined = Joined{Worker: e.Name, Workers: a.Workers, Number: a.Worker, Slots: w.slots, Job: a.Job}
	w.log.Info("the worker has joined", "worker", e.Name, "number", a.Worker, "slots", w.slots)
	return nil
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func (w *work) open() {
	var err error
	func() {
		defer rescue(&err)
		w.computer, err = w.o.Open(w.ctx, w.joined)
	}()
	if err != nil && w.ctx.Err() == nil {
		w.report(err, 0, -1)
	}
}

// begin starts the goroutines that lease, read and compute.
func (w *work) begin() {
	w.mu.Lock()
	w.opened = true
	w.mu.Unlock()
	w.running.Go(func() { w.loop(w.lease, false) })
	for range min(max(w.o.Readers, 1), w.limit) {
		w.running.Go(w.reads)
	}
	for slot := range w.slots {
		w.running.Go(func() { w.computes(slot) })
	}
}

// leave says farewell.
func (w *work) leave() {
	ctx, cancel := context.WithTimeout(w.links, w.times.Farewell)
	defer cancel()
	err := w.withResults(ctx, func(l *link) error {
		_, err := tell[empty](ctx, l, pathLeave, leaveMessage{Worker: w.number}, w.times.Farewell, maxMessage)
		return err
	})
	if err != nil { // the run may be gone
		w.log.Debug("no farewell", "error", err)
	}
}

func (w *work) withResults(ctx context.Context, f func(*link) error) error {
	select {
	case l := <-w.results:
		defer func() { w.results <- l }()
		return f(l)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
