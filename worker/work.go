package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	// Drop takes back what Read returned without an error when Compute is not going to be called with it: nobody wants the block any more. It may be called beside all
	// other methods but Close.
	Drop(read any)
	// Noted is told when Options.Note has changed, before the blocks that are given out after the change are read. One call at a time.
	Noted(note json.RawMessage)
	// Close is called when no other method is running, nor will be. Its error, or panic, fails the run when that is still there to be told: after the last block it
	// waits for its workers for Times.Farewell.
	Close() error
}

// WorkOptions say how Work works.
type WorkOptions struct {
	Environment *Environment
	// Build of this program, which the run compares with its own.
	Build string
	// Slots are computed at once; 0: as Environment says. Readers read at once; 0: one.
	Slots, Readers int
	// Open makes the computer, once. Its error ends the run. ctx is the worker's: it ends at once when the worker must end early, or is still in Open,
	// and after Close when all blocks are done.
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
// or Compute is told with its stack where it has one (a method Stack() []byte, as StackError's) and with its Code; a panic is told as an error. So is one of Close, which
// is called before the run is told that the worker leaves. When
// nobody wants a block any more the contexts of its Read and Compute end. A function that goes on nevertheless is left running when Work returns, and
// the computer is not closed then: the process should end.
func Work(ctx context.Context, o WorkOptions) (err error) {
	w := &work{o: o, log: o.Logger, times: o.Times.orDefaults(), held: map[uint64]*item{}, tooLate: map[uint64]bool{}, freed: make(chan struct{}, 1)}
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
	var endLife context.CancelCauseFunc
	w.life, endLife = context.WithCancelCause(context.WithoutCancel(ctx))
	defer endLife(nil)
	defer context.AfterFunc(w.ctx, func() {
		cause := context.Cause(w.ctx)
		w.mu.Lock()
		inTime := w.opened && (errors.Is(cause, errDone) || errors.Is(cause, errServed))
		w.mu.Unlock()
		if !inTime {
			endLife(cause)
		}
	})()

	if err := w.join(w.ctx); err != nil {
		return w.closing(err)
	}
	w.running.Go(func() { w.loop(w.beat, true) })
	opened := make(chan struct{})
	w.functions.Go(func() {
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
	err = w.end(cause, cancelLinks)
	w.mu.Lock()
	if errors.Is(cause, errEnded) && w.failure != nil {
		cause = w.failure // the run has ended with it, and said so at once
	}
	w.mu.Unlock()
	return afterwards(w.closing(cause), err)
}

// end ends the functions, closes the computer, and takes leave of the run, if that is there.
func (w *work) end(cause error, cancelLinks func()) (err error) {
	ended := make(chan struct{})
	go func() {
		w.functions.Wait()
		w.noteMu.Lock() // Noted is a function too
		w.deaf = true
		w.noteMu.Unlock()
		close(ended)
	}()
	within := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ended:
			return true
		case <-t.C:
			return false
		}
	}
	patience, closed := w.times.Farewell, false
	if !errors.Is(cause, errLink) && !errors.Is(cause, ErrLost) {
		// The heart beats on, however long Close takes. A function that does not end holds up a run that waits for farewells for half its time.
		patience /= 2
		if closed = within(patience); closed {
			if !errors.Is(cause, errDone) && !errors.Is(cause, errEnded) {
				w.giveBack()
			}
			err = w.close()
		}
		w.leave(err)
	}
	cancelLinks()
	if !closed {
		if closed = within(patience); closed {
			err = w.close()
		}
	}
	if !closed {
		w.log.Warn("a function does not end", "worker", w.o.Environment.Name)
		return nil
	}
	w.running.Wait()
	return err
}

// close drops what was read, and closes the computer. The functions have ended.
func (w *work) close() (err error) {
	if w.computer == nil {
		return nil
	}
	for len(w.ready) > 0 {
		w.drop(<-w.ready)
	}
	func() {
		defer rescue(&err)
		err = w.computer.Close()
	}()
	return errors.Join(w.dropErr, err)
}

type work struct {
	o     WorkOptions
	log   *slog.Logger
	times Times
	links context.Context // of messages
	ctx   context.Context // of the work; ends before links
	life  context.Context // of the computer
	stop  context.CancelCauseFunc
	// functions call the computer; running are the others, that exchange messages. Both call Noted.
	functions, running sync.WaitGroup

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
	deaf   bool // no notes are given to the computer any more

	mu      sync.Mutex
	held    map[uint64]*item
	tooLate map[uint64]bool // leases that were superseded before they were known
	dropped []uint64        // leases that the run has not been told of
	took    bool
	opened  bool
	failure error // that the run was told of
	dropErr error // of Drop, when the work was ending
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
	patient, cancel := within(ctx, w.times.Silence)
	defer cancel()
	var a joinAnswer
	var last error
	err := w.leases.retry(patient, func(ctx context.Context) (err error) {
		a, err = tell[joinAnswer](ctx, w.leases, pathJoin, m, w.times.Silence, maxJobBytes+maxMessage)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err
	})
	switch {
	case refusedWith(err, "ended"), refusedWith(err, "done"):
		return verdictOf(err)
	case err != nil && ctx.Err() == nil && patient.Err() != nil:
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
		w.computer, err = w.o.Open(w.life, w.joined)
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
		w.functions.Go(w.reads)
	}
	for slot := range w.slots {
		w.functions.Go(func() { w.computes(slot) })
	}
}

// leave says farewell, and what went wrong before.
func (w *work) leave(err error) {
	m := leaveMessage{Worker: w.number}
	if err != nil {
		m.Message, m.Stack, m.Code = wordsOf(err)
	}
	// A heartbeat under way has its answer within Times.Heartbeat.
	ctx, cancel := context.WithTimeout(w.links, w.times.Heartbeat+w.times.Farewell)
	defer cancel()
	if err := w.withAny(func(l *link) error {
		_, err := tell[empty](ctx, l, pathLeave, m, w.times.Farewell, maxMessage)
		return err
	}); err != nil { // the run may be gone
		w.log.Debug("no farewell", "error", err)
	}
}

// giveBack gives back all leases, which others need not wait for until this worker has closed.
func (w *work) giveBack() {
	w.mu.Lock()
	n := len(w.held)
	w.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.links, w.times.Farewell)
	defer cancel()
	m := leaseMessage{Worker: w.number, Noted: math.MaxUint64, Held: []uint64{}}
	if err := w.withResults(ctx, func(l *link) error { // all are free: no function is running
		_, err := tell[leaseAnswer](ctx, l, pathLease, m, w.times.Farewell, maxMessage)
		return err
	}); err != nil {
		w.log.Debug("no leases could be given back", "error", err)
	}
}

// withAny calls f with a connection for results that is free, or with that for heartbeats, which soon is: those for results may all wait for memory of the run, or for its
// Accept.
func (w *work) withAny(f func(*link) error) error {
	select {
	case l := <-w.results:
		defer func() { w.results <- l }()
		return f(l)
	default:
		return f(w.beats)
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
