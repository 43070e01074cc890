package live

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// resolve is where an address says to listen: a port alone is one of the loopback.
func resolve(address string) (host, port string, err error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", errors.New("give a port, such as 8080, or an address and a port, such as 0.0.0.0:8080 or [::1]:8080")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", fmt.Errorf("the port is %q: give a number from 0 to 65535; 0 is one that is free", port)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, strconv.FormatUint(n, 10), nil
}

// ErrAddress is about what can't be an address to listen at.
var ErrAddress = errors.New("is no address")

// Listen starts serving at a port of the loopback ("8080"; "0" is one that is free), or where an
// address is spelled out ("0.0.0.0:8080"), until Close. It returns the URL to open, which has the
// token in it: who knows it can see the page.
func (p *Page) Listen(address string) (string, error) {
	host, port, err := resolve(address)
	if err != nil {
		return "", fmt.Errorf("%q %w: %w", address, ErrAddress, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.server != nil {
		return "", errors.New("a page listens once")
	}
	metrics, err := p.metrics()
	if err != nil {
		return "", fmt.Errorf("metrics: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", err
	}
	at := l.Addr().(*net.TCPAddr)
	shown := host
	if at.IP.IsUnspecified() { // no address to open
		shown = "localhost"
		if name, err := os.Hostname(); err == nil {
			shown = name
		}
	}
	g := newGuard(host, at.AddrPort().Addr())
	p.server = &http.Server{
		Handler:           g.protect(p.routes(metrics)),
		ReadHeaderTimeout: p.patience,
		ReadTimeout:       p.patience, // bodies, which nobody reads, included
		WriteTimeout:      p.patience, // events set their own
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// "OPTIONS *" is refused as all else is.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(p.o.Logger.Handler(), slog.LevelDebug),
	}
	go func() { p.ended <- p.server.Serve(newBounded(l, maxConnections)) }()
	go p.watch()
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(shown, strconv.Itoa(at.Port)), Path: "/",
		RawQuery: "token=" + g.token}
	return u.String(), nil
}

// newToken is 128 random bits.
func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// maxConnections is how many connections are served at once: a page has two or three. Those beyond
// wait in the kernel's queue; who shows no token is cut off after one answer or some seconds.
const maxConnections = 64

// bounded is a listener that accepts no more than some connections at once.
type bounded struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBounded(l net.Listener, n int) *bounded {
	return &bounded{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: c, free: func() { <-b.slots }}, nil
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}

// hosts are the names under which a page may be asked for. A name that somebody else has made to
// lead to this address (DNS rebinding) is not among them. Ports don't matter for that, and differ
// where one is tunnelled by ssh.
type hosts struct {
	names   map[string]bool
	anyAddr bool // a listener on all addresses takes each of them: addresses can't be rebound
}

func newHosts(spelled string, at netip.Addr) hosts {
	at = at.Unmap()
	h := hosts{names: map[string]bool{canonical(spelled): true, canonical(at.String()): true},
		anyAddr: at.IsUnspecified()}
	if at.IsLoopback() || at.IsUnspecified() {
		for _, n := range []string{"localhost", "127.0.0.1", "::1"} {
			h.names[n] = true
		}
	}
	if at.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			h.names[canonical(name)] = true
		}
	}
	return h
}

// canonical is a host name or address as it is compared.
func canonical(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return host
}

// allow reports whether a Host header names one of them.
func (h hosts) allow(header string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = canonical(host)
	if h.names[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return h.anyAddr && err == nil
}
