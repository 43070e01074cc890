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

// document puts the page together, and gives the policy that lets run what is in it, and nothing
// else.
func document() (page, policy string) {
	// The markers stand alone between tags, so that a tag's content is the file's, which is what is
	// hashed.
	page = strings.NewReplacer("{{style}}", pageCSS, "{{script}}", pageJS).Replace(pageHTML)
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy = "default-src 'none'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS) +
		"; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
	return page, policy
}

// routes answers who has the token.
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

// events sends each look until the last, or until the client leaves.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	p.following.Add(1)
	defer p.following.Add(-1)
	c := http.NewResponseController(w)
	for {
		l, err := p.latest(r.Context())
		if err != nil {
			return
		}
		// The answer goes on for as long as the run: what is bounded is the time for one event.
		c.SetWriteDeadline(time.Now().Add(p.patience))
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
