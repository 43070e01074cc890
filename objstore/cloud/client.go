//go:build !nocloud

package cloud

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"leat/internal/storeurl"
	"leat/objstore"
	"leat/objstore/internal/transport"
)

// answerWithin limits the time that a store may take to respond to a part, or to a request to join
// the parts.
const answerWithin = 10 * time.Minute

// client returns the HTTP client of a bucket, and a function that closes its idle connections,
// which does nothing for the caller's own client.
func client(o *objstore.Options) (c *http.Client, idle func()) {
	if o.Client != nil {
		return o.Client, func() {}
	}
	c = transport.NewClient()
	c.Transport.(*http.Transport).ResponseHeaderTimeout = answerWithin
	return c, c.CloseIdleConnections
}

// endpoint checks the URL of a server and returns its canonical form.
func endpoint(raw string) (canonical string, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("the endpoint %q is not the URL of a server, expected https://HOST:PORT",
			storeurl.RedactText(raw))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the endpoint %s has credentials or a query, expected https://HOST:PORT",
			storeurl.Redact(raw))
	}
	return storeurl.Redact(strings.TrimRight(u.String(), "/")), nil
}
