// Package listen resolves the addresses at which leat listens for HTTP, and serves metrics there.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"leat/internal/metric"
)

// ErrAddress is returned for a text that is not an address.
var ErrAddress = errors.New("invalid address")

// Resolve splits an address into host and port. A port alone, such as "9100" or ":9100", means this
// machine's loopback interface, which other machines do not reach; they reach a named host or
// address, such as "0.0.0.0:9100". Port 0 means any free port.
func Resolve(address string) (host, port string, err error) {
	full := address
	if !strings.Contains(full, ":") {
		full = ":" + full
	}
	if host, port, err = net.SplitHostPort(full); err != nil || port == "" {
		return "", "", fmt.Errorf("%w %q: expected a port, or a host and a port such as 0.0.0.0:9100 or [::1]:9100",
			ErrAddress, address)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", fmt.Errorf("%w %q: expected a port from 0 to 65535", ErrAddress, address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, strconv.FormatUint(n, 10), nil
}

// Server serves metrics at the path /metrics until Close.
type Server struct {
	// URL is what Prometheus scrapes.
	URL    string
	server *http.Server
	ended  chan error
	once   sync.Once
}

// Metrics starts a Server at an address, which may be anything that Resolve accepts.
func Metrics(address string, source metric.Source) (*Server, error) {
	host, port, err := Resolve(address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metric.Handler(source))
	s := &Server{URL: "http://" + l.Addr().String() + "/metrics", ended: make(chan error, 1)}
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// Close rejects new scrapes, waits for one in progress, at most a second, and leaves nothing
// running. Further calls do nothing.
func (s *Server) Close() (err error) {
	s.once.Do(func() { err = s.stop() })
	return err
}

func (s *Server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
