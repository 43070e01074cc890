package live

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// document returns the page and the content security policy that allows its own script and style
// only.
func document() (page, policy string) {
	// A marker is the whole content of its tag, so that the hash of the file is that of the
	// content.
	page = strings.NewReplacer("{{style}}", pageCSS, "{{script}}", pageJS).Replace(pageHTML)
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy = "default-src 'none'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS) +
		"; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
	return page, policy
}

// routes answers requests that passed the guard.
func (p *Page) routes(metrics http.Handler) http.Handler {
	page, policy := document()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", policy)
			w.Write([]byte(page))
		case "/status.json":
			l, err := p.latest(r.Context())
			if err != nil {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write(append(l.json[:len(l.json):len(l.json)], '\n'))
		case "/events":
			p.events(w, r)
		case "/metrics":
			if _, err := p.latest(r.Context()); err != nil {
				return
			}
			metrics.ServeHTTP(w, r)
		default:
			http.Error(w, "There are /, /status.json, /events and /metrics.", http.StatusNotFound)
		}
	})
}

// events sends each snapshot until the last, or until the client leaves.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	p.followers.Add(1)
	defer p.followers.Add(-1)
	c := http.NewResponseController(w)
	for {
		l, err := p.latest(r.Context())
		if err != nil {
			return
		}
		// The answer lasts as long as the run: the timeout applies to each event.
		c.SetWriteDeadline(time.Now().Add(p.clientTimeout))
		for _, part := range []string{"data: ", string(l.json), "\n\n"} {
			if _, err := w.Write([]byte(part)); err != nil {
				return
			}
		}
		if c.Flush() != nil || l.last {
			return
		}
		select {
		case <-l.next:
		case <-r.Context().Done():
			return
		}
	}
}
