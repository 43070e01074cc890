package worker

import (
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// Listen serves workers of other machines at an address, HOST:PORT, by TLS, and returns what leads them there. Port 0 takes a free one. When the host is left out, or a
// wildcard, the invitation has all addresses of this machine that others may reach. It may be called several times.
func (c *Channel) Listen(address string) (Invitation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return Invitation{}, errClosed
	}
	if c.id == nil {
		id, err := newIdentity(time.Now())
		if err != nil {
			return Invitation{}, fmt.Errorf("worker: a key for the run: %w", err)
		}
		c.id = id
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return Invitation{}, fmt.Errorf("worker: listening for workers: %w", err)
	}
	addresses, err := reachable(l.Addr())
	if err != nil {
		_ = l.Close()
		return Invitation{}, fmt.Errorf("worker: the addresses of this machine: %w", err)
	}
	c.listen = append(c.listen, l)
	config := c.id.serverConfig()
	c.work.Go(func() { c.listened(l, c.https.Serve(tls.NewListener(gatedListener{l, c}, config))) })
	return Invitation{Addresses: addresses, Pin: c.id.pin, Token: c.token}, nil
}

// listened tells of a listener that lets nobody in any more, though the channel is open.
func (c *Channel) listened(l net.Listener, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.log.Error("no more workers can join, nor come back", "address", l.Addr(), "error", err)
	}
}

// reachable lists the addresses by which others may reach a listener.
func reachable(a net.Addr) ([]string, error) {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return []string{a.String()}, nil
	}
	var near, far []string
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast() || n.IP.IsMulticast():
		case n.IP.IsLoopback():
			near = append(near, net.JoinHostPort(n.IP.String(), port))
		default:
			far = append(far, net.JoinHostPort(n.IP.String(), port))
		}
	}
	if len(far) == 0 {
		return near, nil
	}
	// The name last: it may mean another address where workers are.
	if name, err := os.Hostname(); err == nil && name != "" && printable(name) {
		far = append(far, net.JoinHostPort(name, port))
	}
	return slices.Compact(far[:min(len(far), maxAddresses)]), nil
}

// serverLog is where net/http tells of connections that went wrong: strangers can make it tell much.
func (c *Channel) serverLog() *log.Logger {
	return log.New(logWriter{c.log}, "", 0)
}

type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("a connection went wrong", "error", cut(shown(strings.TrimSpace(string(p))), 256))
	return len(p), nil
}
