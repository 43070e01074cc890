package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/objstore"
)

func TestRetryForFlag(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1); strings.HasPrefix(r.URL.Path, "/once/") && requests.Load() > 1 {
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("content"))
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer s.Close()
	dir := t.TempDir()
	for _, args := range [][]string{{"stage", "get", s.URL + "/a"}, {"stage", "warm", s.URL + "/a"},
		{"stage", "pin", s.URL + "/a"}, {"info", s.URL + "/a?b"}} {
		requests.Store(0)
		leat(t, exitFailed, dir, append(args, "--retry-for", "0")...)
		if n := requests.Load(); n != 1 {
			t.Errorf("%v: %d requests", args, n)
		}
		leat(t, exitUsage, dir, append(args, "--retry-for", "soon")...)
	}
	requests.Store(0)
	leat(t, exitDone, dir, "stage", "get", s.URL+"/once/a", "--retry-for", "5m")
}

func TestProgressShowsRetryReason(t *testing.T) {
	p := &stageProgress{what: "staging", waiting: &waiting{}}
	p.known.Store(3)
	if text := p.text(time.Second); strings.Contains(text, "again") {
		t.Error(text)
	}
	p.waiting.note(&objstore.Error{Op: "reading", URL: "http://h/secret", Status: 429})
	if text := p.text(time.Second); !strings.HasSuffix(text, ", trying again: 429 Too Many Requests") {
		t.Error(text)
	}
	p.waiting.at = time.Now().Add(-time.Minute)
	if text := p.text(time.Second); strings.Contains(text, "again") {
		t.Error(text)
	}
	var out strings.Builder
	bar := newProgress(&out, progressLine)
	bar.width = func() int { return 200 }
	bar.again(objstore.ErrStalled) // before there is a line
	bar.update(1, 10, 100, "reading")
	bar.finish()
	if !strings.Contains(out.String(), "  trying again: no answer\x1b[K") {
		t.Errorf("%q", out.String())
	}
}
