package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leat/internal/worker/protocol"
	"leat/internal/worker/runerror"
)

// Lease is a block leased to a worker.
type Lease struct {
	Block   int
	Payload json.RawMessage // from Coordinator.Offer
}

// JoinInfo holds what the coordinator sends to a worker that joins.
type JoinInfo struct {
	Worker  string // its name
	Workers int    // expected number of workers of the run
	Number  int    // in order of joining, from 0; replacements continue the numbering
	Slots   int    // number of blocks that it computes at once
	// MaxValue is the maximum size of the value that Close returns; 0: the run takes no values.
	MaxValue int64
	Job      json.RawMessage
}

// Handler computes blocks in a worker.
type Handler interface {
	// Read prepares the input of Compute. It is called concurrently for at most as many blocks as
	// there are slots. ctx ends when the block is no longer needed.
	Read(ctx context.Context, l Lease) (any, error)
	// Compute receives what Read returned and returns the body of the result. Each slot (0 to
	// Slots-1) computes one block at a time; the body belongs to the worker until the slot's next
	// Compute, which is called after the coordinator has accepted the result. ctx ends as in Read.
	Compute(ctx context.Context, slot int, read any) (body [][]byte, err error)
	// Discard releases what Read returned without an error when Compute will not be called with it.
	// It may be called concurrently with all methods except Close.
	Discard(read any)
	// Notify receives a changed note (coordinator.Options.Note) before the blocks leased after the
	// change are read. One call at a time.
	Notify(note json.RawMessage)
	// Close is called after all other methods have returned. Its error or panic fails the run if
	// the run still waits for the worker: after the last block at most Times.ShutdownGrace, or
	// without a limit for a value. The value is that of all blocks that the worker has computed. It
	// is ignored if there are none or JoinInfo.MaxValue is 0.
	Close() (value []byte, err error)
}

// Holder is a Handler that reads more than one block ahead.
type Holder interface {
	// Holds returns how many blocks the worker may hold at once: more than it has slots. It is
	// called once, before the methods of Handler.
	Holds() int
}

// Options configures Work.
type Options struct {
	Environment *Environment
	// Build is this program's build, which the coordinator compares with its own.
	Build string
	// Slots is the number of blocks computed at once, and of blocks read at once; 0: as in
	// Environment.
	Slots int
	// Open creates the handler, once. Its error ends the run. ctx ends at once if the worker has to
	// end early or is still in Open, and after Close if all blocks are done.
	Open   func(ctx context.Context, j JoinInfo) (Handler, error)
	Logger *slog.Logger // nil: nothing is logged
	// OnLease is called after each lease request with its duration and the number of blocks
	// received. nil: not called.
	OnLease func(took time.Duration, blocks int)
	// Times: HeartbeatTimeout times three bounds how long the coordinator's addresses may be
	// unreachable before the worker has joined, and ShutdownGrace how long functions may take to
	// end. The other times come from the coordinator.
	Times protocol.Times
}

// Causes of a worker's end that are not errors.
var (
	errDone   = errors.New("all blocks done")
	errEnded  = errors.New("run ended")
	errServed = errors.New("block done")
)

// ErrLost is returned by Work when the coordinator has declared the worker lost, after a heartbeat
// timeout or without a connection.
var ErrLost = errors.New("declared lost by the coordinator")

// Work joins a run and computes blocks until the run has ended (nil) or ctx ends (its cause). Other
// errors are:
//
//   - one of Open, Read, Compute or Close, which Work reports to the coordinator and which ends the
//     run, with its stack (a method Stack() []byte, as of StackError) and Code; a panic counts as
//     an error;
//
//   - one of the connection: the coordinator is unreachable, before joining for three times
//     Times.HeartbeatTimeout and later for that time once, or an inherited connection has ended;
//
//   - ErrLost.
//
// The contexts of Read and Compute end when their block is no longer needed. If a function
// continues nevertheless, Work returns without calling Close while it runs; the process should then
// exit.
func Work(ctx context.Context, o Options) (err error) {
	w := &work{o: o, log: o.Logger, times: o.Times.OrDefaults(), held: map[uint64]*item{},
		supersededEarly: map[uint64]bool{}, freed: make(chan struct{}, 1)}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	e := o.Environment
	if e == nil || o.Open == nil {
		return errors.New("Work needs an Environment and Open")
	}
	defer func() {
		for _, l := range w.all {
			l.close()
		}
		for _, c := range e.Connections {
			_ = c.Close() // connections in use are closed already
		}
	}()
	if err := w.connect(e); err != nil {
		return err
	}
	var cancelLinks context.CancelFunc
	w.connCtx, cancelLinks = context.WithCancel(context.WithoutCancel(ctx))
	w.ctx, w.stop = context.WithCancelCause(w.connCtx)
	defer w.stop(nil)
	defer cancelLinks()
	// Connections outlive ctx: over them the worker reports that it leaves.
	defer context.AfterFunc(ctx, func() { w.stop(context.Cause(ctx)) })()
	var endLife context.CancelCauseFunc
	w.handlerCtx, endLife = context.WithCancelCause(context.WithoutCancel(ctx))
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
		return w.workError(err)
	}
	var endBeats context.CancelFunc
	w.beatCtx, endBeats = context.WithCancel(w.connCtx)
	w.running.Go(func() {
		defer endBeats()
		w.loop(w.beat, true)
		pauseFor(w.connCtx, w.times.ShutdownGrace) // the answer to leave may be on its way
	})
	opened := make(chan struct{})
	w.functions.Go(func() {
		defer close(opened)
		w.open()
	})
	select {
	case <-opened:
		if w.ctx.Err() == nil {
			w.startLoops()
		}
	case <-w.ctx.Done():
	}
	<-w.ctx.Done()
	cause := context.Cause(w.ctx)
	err = w.end(cause, cancelLinks)
	w.mu.Lock()
	if errors.Is(cause, errEnded) && w.failure != nil {
		cause = w.failure // the run ended because of this error
	}
	w.mu.Unlock()
	return runerror.Join(w.workError(cause), err)
}

// end ends the functions, closes the handler, and leaves the run if it is reachable.
func (w *work) end(cause error, cancelLinks func()) (err error) {
	ended := make(chan struct{})
	go func() {
		w.functions.Wait()
		w.noteMu.Lock() // Notify is a function too
		w.notesClosed = true
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
	grace, closed := w.times.ShutdownGrace, false
	if !errors.Is(cause, ErrDisconnected) && !errors.Is(cause, ErrLost) {
		// Heartbeats continue however long Close takes. A hanging function delays a run that waits
		// for its workers by half of its grace period.
		grace /= 2
		if w.owesValue() && (errors.Is(cause, errDone) || errors.Is(cause, errServed)) {
			<-ended // no block is being computed, and the run waits for the value
			closed = true
		} else {
			closed = within(grace)
		}
		var value []byte
		if closed {
			if !errors.Is(cause, errDone) && !errors.Is(cause, errEnded) {
				w.returnLeases()
			}
			value, err = w.close()
		}
		if closed && err == nil && w.owesValue() && !errors.Is(cause, errEnded) {
			w.leaveWithValue(value)
		} else {
			w.leave(err)
		}
	}
	cancelLinks()
	if !closed {
		if closed = within(grace); closed {
			_, err = w.close()
		}
	}
	if !closed {
		w.log.Warn("function does not end", "worker", w.o.Environment.Name)
		return nil
	}
	w.running.Wait()
	return err
}

// close discards what was read and closes the handler, after the functions have ended.
func (w *work) close() (value []byte, err error) {
	if w.handler == nil {
		return nil, nil
	}
	for len(w.ready) > 0 {
		w.discard(<-w.ready)
	}
	err = call(func() (err error) {
		value, err = w.handler.Close()
		return err
	}, w.leave)
	return value, errors.Join(w.discardErr, err)
}

// owesValue reports whether the run takes a value of the blocks that the worker has computed.
func (w *work) owesValue() bool { return w.maxValue > 0 && w.computed.Load() > 0 }

type work struct {
	o          Options
	log        *slog.Logger
	times      protocol.Times
	connCtx    context.Context // of messages
	beatCtx    context.Context // ends shortly after the heartbeats
	ctx        context.Context // of the work; ends before connCtx
	handlerCtx context.Context // of the handler
	stop       context.CancelCauseFunc
	// functions holds the goroutines that call the handler, running those that exchange messages.
	// Both call Notify.
	functions, running sync.WaitGroup

	dialer        *dialer // nil: all connections were inherited
	beats, leases *conn
	results       chan *conn // free ones
	all           []*conn

	number    int
	slots     int
	limit     int // of leases
	single    bool
	maxResult int64
	maxValue  int64
	computed  atomic.Int64 // blocks that Compute was called with
	joined    JoinInfo
	handler   Handler
	todo      chan *item
	ready     chan *item
	freed     chan struct{} // signaled when a lease ends

	noteMu      sync.Mutex
	noted       uint64
	notesClosed bool // the handler gets no more notes

	mu              sync.Mutex
	held            map[uint64]*item
	supersededEarly map[uint64]bool // leases that were superseded before they arrived
	dropped         []uint64        // ended leases to report
	hadLease        bool
	opened          bool
	failure         error // that was reported to the coordinator
	discardErr      error // of Discard while the work was ending
}

// item is a block in the worker.
type item struct {
	id     uint64
	lease  Lease
	ctx    context.Context
	cancel context.CancelFunc
	read   any
}

// workError returns the error of Work for the cause of its end.
func (w *work) workError(cause error) error {
	name := w.o.Environment.Name
	switch {
	case errors.Is(cause, errDone), errors.Is(cause, errServed), errors.Is(cause, errEnded):
		w.log.Info("worker ends", "worker", name, "why", cause)
		return nil
	case errors.Is(cause, ErrDisconnected):
		return fmt.Errorf("%s: %w", name, cause)
	}
	return cause
}

func (w *work) connect(e *Environment) error {
	w.results = make(chan *conn, protocol.MaxConnections)
	w.slots = w.o.Slots
	if w.slots == 0 {
		w.slots = e.Slots
	}
	if w.slots == 0 {
		w.slots = min(cores(), protocol.MaxSlots)
	}
	if c := e.Connections; len(c) > 0 {
		if len(c) < 3 || len(c) > protocol.MaxConnections {
			return fmt.Errorf("%d inherited connections, expected 3 to %d", len(c), protocol.MaxConnections)
		}
		w.beats, w.leases = w.conn(nil, c[0]), w.conn(nil, c[1])
		for _, c := range c[2:] {
			w.results <- w.conn(nil, c)
		}
		return nil
	}
	if err := protocol.CheckEndpoint(e.Endpoint.Addresses, e.Endpoint.Pin, e.Endpoint.Token); err != nil {
		return err
	}
	config, err := clientConfig(e.Endpoint.Pin)
	if err != nil {
		return err
	}
	d := &dialer{endpoint: e.Endpoint, config: config, timeout: w.times.HeartbeatTimeout / 4,
		handshake: 3 * w.times.HeartbeatTimeout}
	w.dialer = d
	w.beats, w.leases = w.conn(d, nil), w.conn(d, nil)
	for range min(w.slots, 4) { // results of several slots are sent concurrently
		w.results <- w.conn(d, nil)
	}
	return nil
}

func (w *work) conn(d *dialer, inherited net.Conn) *conn {
	l := newConn(d, inherited)
	w.all = append(w.all, l)
	return l
}

// join sends the join message over the heartbeat connection, so that heartbeats never wait for a
// new connection, and stores the answer.
func (w *work) join(ctx context.Context) error {
	e := w.o.Environment
	host, _ := os.Hostname()
	if len(host) > 255 || !protocol.IsPrintable(host) {
		host = ""
	}
	m := protocol.Join{
		Protocol: protocol.Version, Name: e.Name, Kind: e.Kind, Build: w.o.Build, Arch: protocol.ThisArch(), Host: host,
		PID:   os.Getpid(),
		Cores: min(cores(), protocol.MaxCores), Slots: w.slots,
	}
	if m.Kind == "" {
		m.Kind = m.Name
	}
	if err := m.Check(); err != nil {
		return err
	}
	a, err := w.tryToJoin(ctx, m)
	switch {
	case refusedWith(err, "ended"), refusedWith(err, "done"):
		return endCause(err)
	case errors.Is(err, ErrDisconnected), err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("%s: join: %w", e.Name, err)
	}
	w.number, w.slots, w.single, w.maxResult = a.Worker, min(w.slots, a.Slots), a.Single, a.MaxResult
	w.maxValue = a.MaxValue
	w.times.Heartbeat, w.times.HeartbeatTimeout, w.times.Poll = duration(a.Heartbeat), duration(a.Silence),
		duration(a.Poll)
	w.joined = JoinInfo{Worker: e.Name, Workers: a.Workers, Number: a.Worker, Slots: w.slots,
		MaxValue: a.MaxValue, Job: a.Job}
	w.log.Info("worker joined", "worker", e.Name, "number", a.Worker, "slots", w.slots)
	return nil
}

// joinsPerSecond is how many workers that start together connect per second. The delays repeat
// after spreadWorkers workers, so that a replacement, whose number is large, does not wait long.
const (
	joinsPerSecond = 200
	spreadWorkers  = 1000
)

// joinDelay returns how long a worker waits before its first connection, by the number in its name,
// so that many workers don't connect at once.
func joinDelay(name string) time.Duration {
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n%spreadWorkers) * time.Second / joinsPerSecond
}

// tryToJoin retries until the coordinator answers, ctx ends, or no address accepts connections for
// three times Times.HeartbeatTimeout. A busy coordinator may answer late but still listens.
func (w *work) tryToJoin(ctx context.Context, m protocol.Join) (a protocol.JoinAnswer, err error) {
	begun, warned := time.Now(), false
	if w.dialer != nil {
		pauseFor(ctx, joinDelay(m.Name))
		begun = time.Now()
	}
	for pause := firstPause; ; backOff(ctx, &pause, lastJoinPause) {
		a, err = post[protocol.JoinAnswer](ctx, w.beats, protocol.PathJoin, m, 0, protocol.MaxJob+protocol.MaxMessage)
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return a, err
		}
		now := time.Now()
		if last := w.dialer.lastReached(); now.Sub(laterTime(begun, last)) > 3*w.times.HeartbeatTimeout {
			return a, fmt.Errorf("%s: %w: no address accepted a connection for %v: %w", m.Name,
				ErrDisconnected, 3*w.times.HeartbeatTimeout, err)
		}
		if !warned && now.Sub(begun) > w.times.HeartbeatTimeout {
			warned = true
			w.log.Warn("coordinator does not answer yet", "worker", m.Name, "error", err)
		}
	}
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func (w *work) open() {
	err := call(func() (err error) {
		w.handler, err = w.o.Open(w.handlerCtx, w.joined)
		return err
	}, func(err error) { w.report(err, 0, -1) })
	if err != nil && w.ctx.Err() == nil {
		w.report(err, 0, -1)
	}
}

// startLoops starts the goroutines that lease, read and compute.
func (w *work) startLoops() {
	w.limit = w.slots + 1
	if h, ok := w.handler.(Holder); ok {
		w.limit = min(max(w.limit, h.Holds()), protocol.MaxLeases)
	}
	if w.single {
		w.limit = 1
	}
	w.todo, w.ready = make(chan *item, w.limit), make(chan *item, w.limit)
	w.mu.Lock()
	w.opened = true
	w.mu.Unlock()
	w.running.Go(func() { w.loop(w.lease, false) })
	for slot := range w.slots {
		w.functions.Go(w.readLoop)
		w.functions.Go(func() { w.computeLoop(slot) })
	}
}

// leave reports that the worker leaves, and the error of closing.
func (w *work) leave(err error) {
	m := protocol.Leave{Worker: w.number}
	if err != nil {
		m.Message, m.Stack, m.Code = errorTexts(err)
	}
	w.sendLeave(&m)
}

// leaveWithValue reports that the worker leaves, with the value of the blocks that it has computed.
func (w *work) leaveWithValue(value []byte) {
	w.sendLeave(&protocol.Leave{Worker: w.number, Blocks: int(w.computed.Load()), Value: value})
}

// sendLeave tries once, for a short time. If the run waits for a value, it tries until the
// coordinator has answered or no longer answers heartbeats.
func (w *work) sendLeave(m *protocol.Leave) {
	send := func(ctx context.Context, l *conn, wait time.Duration) error {
		_, err := post[protocol.Empty](ctx, l, protocol.PathLeave, m, wait, protocol.MaxMessage)
		return err
	}
	var err error
	if w.owesValue() {
		err = w.withAny(func(l *conn) error {
			return l.retry(w.beatCtx, func(ctx context.Context) error { return send(ctx, l, 0) })
		})
	} else {
		// A heartbeat in progress is answered within Times.Heartbeat.
		ctx, cancel := context.WithTimeout(w.connCtx, w.times.Heartbeat+w.times.ShutdownGrace)
		defer cancel()
		err = w.withAny(func(l *conn) error { return send(ctx, l, w.times.ShutdownGrace) })
	}
	if err != nil && !refusedWith(err, "left") { // the run may have ended
		w.log.Debug("leave failed", "error", err)
	}
}

// returnLeases returns all leases, so that other workers need not wait until this one has closed.
func (w *work) returnLeases() {
	w.mu.Lock()
	n := len(w.held)
	w.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.connCtx, w.times.ShutdownGrace)
	defer cancel()
	m := protocol.LeaseRequest{Worker: w.number, Noted: math.MaxUint64, Held: []uint64{}}
	if err := w.withResults(ctx, func(l *conn) error { // all result connections are free
		_, err := post[protocol.LeaseAnswer](ctx, l, protocol.PathLease, m, w.times.ShutdownGrace, protocol.MaxMessage)
		return err
	}); err != nil {
		w.log.Debug("returning leases failed", "error", err)
	}
}

// withAny calls f with a result connection that gets free soon, or with the heartbeat connection,
// which is free within Times.Heartbeat: all result connections may be waiting for memory or for
// Accept.
func (w *work) withAny(f func(*conn) error) error {
	select {
	case l := <-w.results:
		defer func() { w.results <- l }()
		return f(l)
	case <-time.After(w.times.Heartbeat / 8):
		return f(w.beats)
	}
}

func (w *work) withResults(ctx context.Context, f func(*conn) error) error {
	select {
	case l := <-w.results:
		defer func() { w.results <- l }()
		return f(l)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
