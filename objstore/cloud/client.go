package cloud

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"leat/objstore"
)

// answerWithin bounds how long a store may take to answer after it was sent a part, or told to put parts together.
const answerWithin = 10 * time.Minute

// client is the HTTP client of a bucket, and what closes its connections: nothing where it is the caller's own.
func client(o *objstore.Options) (c *http.Client, idle func()) {
	if o.Client != nil {
		return o.Client, func() {}
	}
	c = objstore.NewClient()
	c.Transport.(*http.Transport).ResponseHeaderTimeout = answerWithin
	return c, c.CloseIdleConnections
}

// endpoint checks the URL of a server, and gives the form by which its buckets are named.
func endpoint(raw string) (canonical string, err error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("objstore: the endpoint %q is no URL of a server: write it as https://HOST:PORT", objstore.RedactText(raw))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("objstore: the endpoint %s can't have credentials or options in its URL", objstore.Redact(raw))
	}
	return objstore.Redact(strings.TrimRight(u.String(), "/")), nil
}
