package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

// calm are the times of tests in which no worker is lost by its silence, even on a loaded machine.
// Only a failing test waits that long.
var calm = protocol.Times{
	Heartbeat:        patience,
	HeartbeatTimeout: 3 * patience,
	Rejoin:           patience,
	Poll:             3 * patience,
	ExitReportWait:   250 * time.Millisecond,
	TokenTimeout:     patience,
	ShutdownGrace:    5 * time.Second,
}

// quick are the times of tests in which workers are lost by their silence.
var quick = protocol.Times{
	Heartbeat:        50 * time.Millisecond,
	HeartbeatTimeout: time.Second,
	Rejoin:           300 * time.Millisecond,
	Poll:             500 * time.Millisecond,
	ExitReportWait:   250 * time.Millisecond,
	TokenTimeout:     patience,
	ShutdownGrace:    500 * time.Millisecond,
}

const testBuild = "go:test"

// taken records the results that a coordinator accepts.
type taken struct {
	mu       sync.Mutex
	bodies   map[int]string
	by       map[int]string
	twice    []int
	released map[int]int
}

func newTaken() *taken {
	return &taken{bodies: map[int]string{}, by: map[int]string{}, released: map[int]int{}}
}

func (k *taken) accept(_ context.Context, r *Result) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.bodies[r.Block]; there {
		k.twice = append(k.twice, r.Block)
	}
	k.bodies[r.Block], k.by[r.Block] = string(r.Body), r.Worker
	return nil
}

func (k *taken) release(b int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.released[b]++
}

// check fails the test unless each block from 0 to n-1 was accepted once, with the result of a
// plain worker.
func (k *taken) check(t *testing.T, n int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.bodies) != n || len(k.twice) > 0 {
		t.Errorf("%d blocks of %d were accepted, twice: %v", len(k.bodies), n, k.twice)
	}
	for b, body := range k.bodies {
		if body != resultOf(b) {
			t.Errorf("block %d: %q", b, body)
		}
	}
}

func resultOf(block int) string { return fmt.Sprintf("result of block %d", block) }

// testOptions returns the options of a coordinator with one worker, whose results k records.
func testOptions(blocks int, k *taken) Options {
	return Options{
		Blocks: blocks, MaxResult: 1 << 20, MaxBytes: 4 << 20, Accept: k.accept, Released: k.release, Build: testBuild,
		Workers: 1, Times: calm,
	}
}

func newTestCoordinator(t testing.TB, o Options) *Coordinator {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// transports are the two kinds of connections to a coordinator.
var transports = []string{"sockets", "tls"}

// environmentOf returns the environment of a worker process.
func environmentOf(t testing.TB, c *Coordinator, transport, name string) *client.Environment {
	t.Helper()
	e := &client.Environment{Name: name, Kind: "test", Slots: 1}
	if transport == "tls" {
		e.Endpoint = listen(t, c)
		return e
	}
	for range 3 {
		e.Connections = append(e.Connections, pairConn(t, c))
	}
	return e
}

func pairConn(t testing.TB, c *Coordinator) net.Conn {
	t.Helper()
	f, err := c.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func listen(t testing.TB, c *Coordinator) worker.Endpoint {
	t.Helper()
	i, err := c.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// plain is a Handler for tests; its hooks may be nil.
type plain struct {
	onRead    func(ctx context.Context, l client.Lease) error
	onCompute func(ctx context.Context, block int) error
	onNote    func(note string)
	holds     int // blocks at once; 0: the default
	joined    client.JoinInfo
	closed    bool
	onClose   func() error
	value     []byte      // of Close
	drops     map[int]int // by block
	slots     []int       // blocks under way in each slot
	mu        sync.Mutex
}

func (p *plain) Holds() int { return p.holds }

func (p *plain) Read(ctx context.Context, l client.Lease) (any, error) {
	if p.onRead != nil {
		if err := p.onRead(ctx, l); err != nil {
			return nil, err
		}
	}
	return l.Block, nil
}

func (p *plain) Compute(ctx context.Context, slot int, read any) ([][]byte, error) {
	p.mu.Lock()
	if p.slots == nil {
		p.slots = make([]int, p.joined.Slots)
	}
	p.slots[slot]++
	if p.slots[slot] > 1 {
		panic("two blocks in one slot")
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.slots[slot]--
		p.mu.Unlock()
	}()
	if p.onCompute != nil {
		if err := p.onCompute(ctx, read.(int)); err != nil {
			return nil, err
		}
	}
	s := resultOf(read.(int))
	return [][]byte{[]byte(s[:3]), nil, []byte(s[3:])}, nil
}

func (p *plain) Discard(read any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drops == nil {
		p.drops = map[int]int{}
	}
	p.drops[read.(int)]++
}

func (p *plain) Notify(note json.RawMessage) {
	if p.onNote != nil {
		p.onNote(string(note))
	}
}

func (p *plain) Close() ([]byte, error) {
	p.closed = true
	var err error
	if p.onClose != nil {
		err = p.onClose()
	}
	return p.value, err
}

// workOptions returns the options of a worker with the handler p.
func workOptions(e *client.Environment, p *plain) client.Options {
	return client.Options{
		Environment: e, Build: testBuild, Times: calm,
		Open: func(_ context.Context, j client.JoinInfo) (client.Handler, error) {
			p.joined = j
			return p, nil
		},
	}
}

// working is a running worker.
type working struct {
	plain *plain
	err   error
	done  chan struct{}
	stop  context.CancelFunc
}

func startWorker(t testing.TB, e *client.Environment, p *plain) *working {
	return startWork(t, workOptions(e, p), p)
}

// startHasty starts a worker with the short timeouts of quick.
func startHasty(t testing.TB, e *client.Environment, p *plain) *working {
	o := workOptions(e, p)
	o.Times = quick
	return startWork(t, o, p)
}

func startWork(t testing.TB, o client.Options, p *plain) *working {
	ctx, cancel := context.WithCancel(context.Background())
	w := &working{plain: p, done: make(chan struct{}), stop: cancel}
	go func() {
		defer close(w.done)
		w.err = client.Work(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

// wait returns what Work has returned.
func (w *working) wait() error {
	<-w.done
	return w.err
}

// patience is the timeout of tests that wait for something that must happen.
const patience = 40 * time.Second

func waitRun(t testing.TB, c *Coordinator) error {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the test timed out"))
	defer cancel()
	return c.Wait(ctx)
}

// until waits until f returns true.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}

func statesOf(c *Coordinator) (states []worker.State) {
	for _, w := range c.Status().Workers {
		states = append(states, w.State)
	}
	return states
}

func hasState(c *Coordinator, s worker.State) func() bool {
	return func() bool { return slices.Contains(statesOf(c), s) }
}

func logTo(t testing.TB) *slog.Logger {
	if os.Getenv("LEAT_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines records log lines.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) warnings() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if strings.Contains(s, "level=WARN") || strings.Contains(s, "level=ERROR") {
			n++
		}
	}
	return n
}
