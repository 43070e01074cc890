package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"leat/stage"
)

// Address returns the address to listen on for addr. A port alone, such as "9100" or ":9100", means
// this machine's loopback interface, which other machines do not reach; they reach a named host or
// address, such as "0.0.0.0:9100". Port 0 means any free port.
func Address(addr string) (string, error) {
	if !strings.Contains(addr, ":") {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", errors.New("give a port, such as 9100, or an address and a port, such as 0.0.0.0:9100 or [::1]:9100")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("the port is %q: give a number from 0 to 65535", port)
	} else {
		port = strconv.FormatUint(n, 10)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// Server serves the metrics of a pool.
type Server struct {
	url    string
	server *http.Server
	ended  chan error
}

// Listen serves the metrics of a pool at the path /metrics, in the text formats of Prometheus and
// OpenMetrics, until Close. Address describes addr.
func Listen(addr string, p *stage.Pool) (*Server, error) {
	addr, err := Address(addr)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(Collector(p)); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	s := &Server{url: "http://" + l.Addr().String() + "/metrics", ended: make(chan error, 1)}
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// URL returns the URL to scrape.
func (s *Server) URL() string { return s.url }

// Close stops the server and waits at most a second for a scrape in progress. It leaves nothing
// running.
func (s *Server) Close() error {
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
