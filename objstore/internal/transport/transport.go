// Package transport configures HTTP for requests to stores.
package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Configure prepares a transport for reading objects. Each request uses its own HTTP/1.1
// connection: HTTP/2 would send all of them over one, which limits parallel ranges to the speed of
// one connection and repeats attempts on a connection that the network has lost. Errors name a
// proxy that refuses to connect.
func Configure(t *http.Transport) {
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig != nil { // a clone of a used transport offers HTTP/2 here
		t.TLSClientConfig = t.TLSClientConfig.Clone()
		t.TLSClientConfig.NextProtos = nil
	}
	t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &ProxyError{proxy.Host, resp.StatusCode}
	}
}

// ErrProxy is returned when a proxy refused to connect to the store.
var ErrProxy = errors.New("a proxy refused the connection")

// ProxyError is an ErrProxy with the proxy's answer.
type ProxyError struct {
	Host   string
	Status int
}

func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy %s answered %d %s", e.Host, e.Status, http.StatusText(e.Status))
}

// Is reports whether target is ErrProxy.
func (e *ProxyError) Is(target error) bool { return target == ErrProxy }

// ParseRetryAfter parses the header Retry-After, seconds or a date. It returns 0 for none.
func ParseRetryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n > 0 {
		return time.Duration(min(n, 1<<30)) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// NewClient returns the client of a bucket if objstore.Options.Client is nil. Connecting has a
// timeout; reading has none, since objects may be of any size. It obeys HTTP_PROXY and does not
// decompress.
func NewClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	Configure(t)
	t.DialContext = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 128
	t.ResponseHeaderTimeout = 0 // objstore.Retry detects stalls
	t.DisableCompression = true
	return &http.Client{Transport: t}
}
