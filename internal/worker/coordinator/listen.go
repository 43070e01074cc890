package coordinator

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

	"leat/internal/worker/protocol"
	"leat/worker"
)

// Listen accepts workers from other machines over TLS at an address, HOST:PORT, and returns the
// endpoint for them. Port 0 selects a free port. With an empty or wildcard host the endpoint has
// all of this machine's addresses that others may reach. It may be called several times, and fails
// once the coordinator is closed.
func (c *Coordinator) Listen(address string) (worker.Endpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return worker.Endpoint{}, errClosed
	}
	if c.id == nil {
		id, err := newIdentity(time.Now())
		if err != nil {
			return worker.Endpoint{}, fmt.Errorf("creating key: %w", err)
		}
		c.id = id
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return worker.Endpoint{}, fmt.Errorf("listening for workers: %w", err)
	}
	addresses, err := reachable(l.Addr())
	if err != nil {
		_ = l.Close()
		return worker.Endpoint{}, fmt.Errorf("listing addresses of this machine: %w", err)
	}
	c.listen = append(c.listen, l)
	config := c.id.serverConfig()
	c.work.Go(func() { c.listenerEnded(l, c.https.Serve(tls.NewListener(gatedListener{l, c}, config))) })
	return worker.Endpoint{Addresses: addresses, Pin: c.id.pin, Token: c.token}, nil
}

// listenerEnded logs a listener that stopped before the coordinator was closed.
func (c *Coordinator) listenerEnded(l net.Listener, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.log.Error("listener for workers failed", "address", l.Addr(), "error", err)
	}
}

// reachable returns the addresses at which other machines may reach a listener.
func reachable(a net.Addr) ([]string, error) {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return []string{a.String()}, nil
	}
	var loopback, external []string
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || n.IP.IsLinkLocalUnicast() || n.IP.IsMulticast():
		case n.IP.IsLoopback():
			loopback = append(loopback, net.JoinHostPort(n.IP.String(), port))
		default:
			external = append(external, net.JoinHostPort(n.IP.String(), port))
		}
	}
	if len(external) == 0 {
		return loopback, nil
	}
	// The host name comes last: it may resolve differently on workers.
	if name, err := os.Hostname(); err == nil && name != "" && protocol.IsPrintable(name) {
		external = append(external, net.JoinHostPort(name, port))
	}
	return slices.Compact(external[:min(len(external), protocol.MaxAddresses)]), nil
}

// serverLog returns the logger for connection errors of net/http. Its level is Debug, since clients
// without a token can cause many.
func (c *Coordinator) serverLog() *log.Logger {
	return log.New(logWriter{c.log}, "", 0)
}

type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("worker connection failed", "error", protocol.Truncate(protocol.Sanitize(strings.TrimSpace(string(p))), 256))
	return len(p), nil
}
