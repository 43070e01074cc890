package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"leat/internal/listen"
	"leat/internal/metric"
)

// maxConnections is the number of connections served at once: a page has two or three. Further ones
// wait in the kernel's queue. Clients without the token lose theirs after one answer or some
// seconds.
const maxConnections = 64

// ErrToken is returned for a token that is too short.
var ErrToken = fmt.Errorf("token too short: expected at least %d characters", minToken)

const minToken = 16

// Listen serves the page at an address until Close and returns the URL to open. The URL contains
// the token unless it was given by Options. A port alone ("8080", or "0" for any free one) is one
// of the loopback interface; other machines reach "0.0.0.0:8080". The error is listen.ErrAddress
// for a text that is not an address.
func (p *Page) Listen(address string) (string, error) {
	host, port, err := listen.Resolve(address)
	if err != nil {
		return "", err
	}
	token := p.o.Token
	if token == "" {
		token = newToken()
	} else if len(token) < minToken {
		return "", ErrToken
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.server != nil {
		return "", errors.New("a page listens once")
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", err
	}
	at := l.Addr().(*net.TCPAddr)
	shown := host
	if at.IP.IsUnspecified() { // not an address to open
		shown = "localhost"
		if name, err := os.Hostname(); err == nil {
			shown = name
		}
	}
	g := newGuard(host, at.AddrPort().Addr(), token)
	p.server = &http.Server{
		Handler:           g.protect(p.routes(metric.Handler(p.metrics))),
		ReadHeaderTimeout: p.clientTimeout,
		ReadTimeout:       p.clientTimeout, // includes bodies, which are ignored
		WriteTimeout:      p.clientTimeout, // events set their own
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		// the guard refuses "OPTIONS *" too
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(p.o.Logger.Handler(), slog.LevelDebug),
	}
	go func() { p.ended <- p.server.Serve(netutil.LimitListener(l, maxConnections)) }()
	go p.watch()
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(shown, strconv.Itoa(at.Port)), Path: "/"}
	if p.o.Token == "" { // a fixed token is a secret that must not get into logs
		u.RawQuery = "token=" + token
	}
	return u.String(), nil
}
