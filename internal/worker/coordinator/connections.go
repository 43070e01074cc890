package coordinator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"leat/internal/childproc"
	"leat/internal/worker/protocol"
	"leat/worker"
)

// connection is a client connection of a coordinator.
type connection struct {
	net.Conn
	trusted bool // inherited by a child process; needs no token
	c       *Coordinator
	m       *member // the member that uses it; guarded by Coordinator.mu
	// unauthenticated is true until the client sends the token; guarded by gate.mu.
	unauthenticated bool
	inHandshake     atomic.Bool // holds a slot of gate.handshakes
	closed          atomic.Bool
}

// Close closes the connection and releases what it holds. net/http calls it when the connection has
// ended.
func (k *connection) Close() error {
	err := k.Conn.Close()
	if k.closed.CompareAndSwap(false, true) {
		k.endHandshake()
		k.c.gate.forget(k)
		k.c.disconnected(k)
	}
	return err
}

// bind assigns the connection to a member. The caller holds mu.
func (c *Coordinator) bind(k *connection, m *member) {
	if k.m == m || k.closed.Load() {
		return
	}
	if k.m != nil {
		k.m.conns--
	}
	k.m = m
	m.conns++
}

// disconnected updates the member of a closed connection.
func (c *Coordinator) disconnected(k *connection) { c.release(c.unbind(k, time.Now())) }

func (c *Coordinator) unbind(k *connection, now time.Time) (released []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := k.m
	if m == nil {
		return nil
	}
	k.m = nil
	m.conns--
	m.disconnectedAt = now
	if m.local && m.state == worker.StateJoined && !c.ended {
		released = c.markLost(m, "its connection ended", now).released
		c.updateQuorum(now)
	}
	return released
}

// gate bounds the connections that have not sent the token. At the limit, further connections wait
// in the listener's queue instead of being closed, because a new handshake costs more than a
// waiting one. Each has Times.TokenTimeout to send the token.
type gate struct {
	limit int
	space chan struct{} // signaled when the count falls
	shut  chan struct{}
	once  sync.Once
	// handshakes limits concurrent TLS handshakes, so that heartbeats get processor time too.
	handshakes chan struct{}

	mu    sync.Mutex
	count int
}

func newGate(limit int) *gate {
	return &gate{limit: limit, space: make(chan struct{}, 1), shut: make(chan struct{}),
		handshakes: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// enter waits until the count is below the limit and reports false if the gate was closed.
func (g *gate) enter(k *connection) bool {
	for {
		g.mu.Lock()
		if g.count < g.limit {
			g.count++
			k.unauthenticated = true
			g.mu.Unlock()
			return true
		}
		g.mu.Unlock()
		select {
		case <-g.space:
		case <-g.shut:
			return false
		}
	}
}

// forget removes a connection from the count, after it has sent the token or was closed.
func (g *gate) forget(k *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !k.unauthenticated {
		return
	}
	k.unauthenticated = false
	g.count--
	select {
	case g.space <- struct{}{}:
	default:
	}
}

func (g *gate) unauthenticated() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// isFull reports whether new connections have to wait.
func (g *gate) isFull() bool { return g.unauthenticated() >= g.limit }

func (g *gate) close() { g.once.Do(func() { close(g.shut) }) }

// beginHandshake waits for a handshake slot after the client's hello has arrived. The first write
// to the client, or closing the connection, releases the slot.
func (k *connection) beginHandshake() {
	select {
	case k.c.gate.handshakes <- struct{}{}:
		k.inHandshake.Store(true)
		if k.closed.Load() {
			k.endHandshake()
		}
	case <-k.c.gate.shut:
	}
}

func (k *connection) endHandshake() {
	if k.inHandshake.Load() && k.inHandshake.CompareAndSwap(true, false) {
		<-k.c.gate.handshakes
	}
}

func (k *connection) Write(b []byte) (int, error) {
	k.endHandshake()
	return k.Conn.Write(b)
}

// gatedListener accepts connections through the gate.
type gatedListener struct {
	net.Listener
	c *Coordinator
}

func (l gatedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	k := &connection{Conn: conn, c: l.c}
	if !l.c.gate.enter(k) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return k, nil
}

// pairListener accepts connections that this process has created itself.
type pairListener struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func newPairListener() *pairListener {
	return &pairListener{conns: make(chan net.Conn), shut: make(chan struct{})}
}

func (l *pairListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

func (l *pairListener) Close() error {
	l.once.Do(func() { close(l.shut) })
	return nil
}

func (l *pairListener) Addr() net.Addr { return &net.UnixAddr{Name: "socketpair", Net: "unix"} }

// Connect creates a connection for a child process and returns the child's end, which the caller
// closes after starting the child. The connection is trusted without a token. A worker needs three.
// It fails once the coordinator is closed.
func (c *Coordinator) Connect() (*os.File, error) {
	conn, theirs, err := childproc.SocketPair("worker")
	if err != nil {
		return nil, fmt.Errorf("connecting a worker: %w", err)
	}
	select {
	case c.pairs.conns <- &connection{Conn: conn, c: c, trusted: true}:
		return theirs, nil
	case <-c.pairs.shut:
	}
	_ = conn.Close()
	_ = theirs.Close()
	return nil, errClosed
}

type connectionKey struct{}

// newServer returns an HTTP server for the messages of workers.
func (c *Coordinator) newServer() *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return &http.Server{
		Handler:        http.HandlerFunc(c.serve),
		MaxHeaderBytes: protocol.MaxHeader,
		Protocols:      p,
		ErrorLog:       c.serverLog(),
		ConnState: func(_ net.Conn, s http.ConnState) {
			c.mu.Lock()
			defer c.mu.Unlock()
			switch s {
			case http.StateNew:
				c.conns++
			case http.StateClosed:
				if c.conns--; c.conns == 0 {
					c.noConns.Broadcast()
				}
			}
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if t, ok := conn.(*tls.Conn); ok {
				conn = t.NetConn()
			}
			return context.WithValue(ctx, connectionKey{}, conn.(*connection))
		},
	}
}
