package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// mirror is a server of a script's files, and one of S3's protocol with an empty bucket.
type mirror struct {
	files, s3 *httptest.Server
	mu        sync.Mutex
	bytes     map[string]int64 // sent, by path
	closed    bool             // the bucket takes nothing
}

type countedAnswer struct {
	http.ResponseWriter
	m    *mirror
	path string
}

func (c countedAnswer) Write(b []byte) (int, error) {
	c.m.mu.Lock() // before they are sent: who gets them may ask at once
	c.m.bytes[c.path] += int64(len(b))
	c.m.mu.Unlock()
	return c.ResponseWriter.Write(b)
}

func newMirror(t testing.TB, dir string) *mirror {
	t.Helper()
	m := &mirror{bytes: map[string]int64{}}
	directory := http.FileServer(http.Dir(dir))
	m.files = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/closed/") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		directory.ServeHTTP(countedAnswer{w, m, r.URL.Path}, r)
	}))
	t.Cleanup(m.files.Close)
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(backend).Server()
	m.s3 = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		closed := m.closed && r.Method != http.MethodGet && r.Method != http.MethodHead
		m.mu.Unlock()
		if closed {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(m.s3.Close)
	return m
}
