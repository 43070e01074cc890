package objstore

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// ConfigureTransport prepares a transport for reading objects. Each request uses its own HTTP/1.1
// connection: HTTP/2 would send all of them over one, which limits parallel ranges to the speed of
// one connection and repeats attempts on a connection that the network has lost. Errors name a
// proxy that refuses to connect.
func ConfigureTransport(t *http.Transport) {
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
		return &proxyError{proxy.Host, resp.StatusCode}
	}
}

// proxyError is returned when a proxy did not connect to the store.
type proxyError struct {
	host   string
	status int
}

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy %s answered %d %s", e.host, e.status, http.StatusText(e.status))
}

// Is makes the error an ErrProxy.
func (e *proxyError) Is(target error) bool { return target == ErrProxy }
