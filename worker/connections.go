package worker

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connection is one that a channel serves.
type connection struct {
	net.Conn
	trusted bool // over an inherited socket: its holder is a child of this process
	c       *Channel
	m       *member       // whose messages came by it; the channel's lock guards it
	place   *list.Element // among the gate's strangers, whose lock guards it
	since   time.Time
	closed  atomic.Bool
}

// Close is called by net/http when the connection has ended, and by the gate.
func (k *connection) Close() error {
	err := k.Conn.Close()
	if k.closed.CompareAndSwap(false, true) {
		k.c.gate.forget(k)
		k.c.apart(k)
	}
	return err
}

// bind notes that a member speaks by the connection.
func (c *Channel) bind(k *connection, m *member) {
	if k.m == m || k.closed.Load() {
		return
	}
	if k.m != nil {
		k.m.conns--
	}
	k.m = m
	m.conns++
}

// apart notes that a connection has ended.
func (c *Channel) apart(k *connection) { c.release(c.unbind(k, time.Now())) }

func (c *Channel) unbind(k *connection, now time.Time) (released []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := k.m
	if m == nil {
		return nil
	}
	k.m = nil
	m.conns--
	m.apart = now
	if m.local && m.state == StateJoined && !c.ended {
		released = c.lose(m, "its connection ended", now).released
		c.settle(now)
	}
	return released
}

// gate bounds the connections that have shown no token. When it is full further ones wait in the listener's queue, until one of those inside shows its token or
// ends, or until the oldest was silent for longer than patience and is closed: so neither a thousand workers that come at once nor strangers
// that say nothing keep a worker out.
type gate struct {
	limit    int
	patience time.Duration
	room     chan struct{} // a stranger has gone
	shut     chan struct{}
	once     sync.Once
	crowded  atomic.Int64

	mu   sync.Mutex
	list *list.List // of *connection, the oldest first
}

func newGate(limit int, patience time.Duration) *gate {
	return &gate{limit: limit, patience: patience, room: make(chan struct{}, 1), shut: make(chan struct{}), list: list.New()}
}

// enter lets a connection in, when there is room; false: the gate was closed.
func (g *gate) enter(k *connection) bool {
	for {
		g.mu.Lock()
		if g.list.Len() < g.limit {
			k.since = time.Now()
			k.place = g.list.PushBack(k)
			g.mu.Unlock()
			return true
		}
		oldest := g.list.Front().Value.(*connection)
		wait := g.patience - time.Since(oldest.since)
		if wait <= 0 { // it goes before it can show its token
			g.list.Remove(oldest.place)
			oldest.place = nil
		}
		g.mu.Unlock()
		if wait <= 0 {
			g.crowded.Add(1)
			// Closing a TLS connection may wait for its peer.
			_ = oldest.Conn.Close()
			continue
		}
		t := time.NewTimer(wait)
		select {
		case <-g.room:
		case <-t.C:
		case <-g.shut:
			t.Stop()
			return false
		}
		t.Stop()
	}
}

// forget takes a connection from the strangers: it has shown its token, or has ended.
func (g *gate) forget(k *connection) {
	g.mu.Lock()
	if k.place != nil {
		g.list.Remove(k.place)
		k.place = nil
		select {
		case g.room <- struct{}{}:
		default:
		}
	}
	g.mu.Unlock()
}

func (g *gate) strangers() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.list.Len()
}

func (g *gate) close() { g.once.Do(func() { close(g.shut) }) }

// gatedListener is a listener for strangers.
type gatedListener struct {
	net.Listener
	c *Channel
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

// pairListener hands connections that this process has made itself to a server.
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

// Connect makes a connection for a child of this process: the file is the child's end, which the caller closes once the child has it. Whoever holds it is trusted, and shows no
// token. A worker needs three.
func (c *Channel) Connect() (*os.File, error) {
	syscall.ForkLock.RLock() // no child that is started meanwhile may inherit them
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("worker: a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "worker")
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		_ = theirs.Close()
		return nil, fmt.Errorf("worker: %w", err)
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

// newServer makes a server of the channel's messages.
func (c *Channel) newServer() *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return &http.Server{
		Handler:        http.HandlerFunc(c.serve),
		MaxHeaderBytes: maxHeader,
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
					c.deserted.Broadcast()
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
