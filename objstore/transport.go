package objstore

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// SetUp has a transport serve the reading of objects. Each request uses a connection of its own, by HTTP/1.1: HTTP/2 would send all of them through one, so that
// parallel ranges have the pace of one connection, and where the network has forgotten it, each new attempt is made on it again. A proxy that
// refuses to connect is named.
func SetUp(t *http.Transport) {
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig != nil { // a transport that was cloned offers what the one before it did
		t.TLSClientConfig = t.TLSClientConfig.Clone()
		t.TLSClientConfig.NextProtos = nil
	}
	t.OnProxyConnectResponse = func(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		return &proxyError{proxy.Host, resp.StatusCode}
	}
}

// proxyError tells that a proxy did not connect to the store.
type proxyError struct {
	host   string
	status int
}

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy %s answered %d %s", e.host, e.status, http.StatusText(e.status))
}

// adviceOnProxies is what to check where a proxy is in the way.
const adviceOnProxies = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
