//go:build linux

package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leat/objstore"
)

func TestCopySurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	for name, tag := range map[string]string{"parts": `"1"`, "one request, begun again": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := make([]byte, 64*mib)
			fill(data, 1, 0)
			var sent atomic.Int64
			began, stopped := make(chan struct{}), make(chan struct{})
			var once sync.Once
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tag != "" {
					w.Header().Set("ETag", tag)
				}
				http.ServeContent(&countedAnswer{w, func(n int) {
					if sent.Add(int64(n)) > 20*mib {
						once.Do(func() { close(began) })
						<-stopped // so that the copy is not complete before the server stops
					}
				}}, r, "", time.Time{}, bytes.NewReader(data))
			})
			l := ok(net.Listen("tcp", "127.0.0.1:0"))(t)
			s := &http.Server{Handler: handler}
			go s.Serve(l)
			src := ok(objstore.Open(t.Context(), "http://"+l.Addr().String(), nil))(t)
			defer src.Close()
			p := ok(Open(context.Background(), t.TempDir(), &Options{RangeBytes: mib, MinFree: -1}))(t)
			defer p.Close()
			lazy := p.Prefetch(src, "big.bin")
			defer lazy.Release()
			copied := make(chan error, 1)
			go func() { copied <- lazy.WaitStaged(t.Context()) }() // which makes no attempt of its own, as Bytes does
			<-began
			must(t, s.Close())
			close(stopped)
			soon(t, "requests while there is no server", func() bool { return p.Counters().Retries >= 2 })
			l = ok(net.Listen("tcp", l.Addr().String()))(t)
			s = &http.Server{Handler: handler}
			go s.Serve(l)
			defer s.Close()
			must(t, <-copied)
			if b, err := lazy.Bytes(t.Context()); err != nil || !bytes.Equal(b, data) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

// countedAnswer is one whose bytes are counted before they are sent.
type countedAnswer struct {
	http.ResponseWriter
	count func(n int)
}

func (c *countedAnswer) Write(b []byte) (int, error) {
	c.count(len(b))
	return c.ResponseWriter.Write(b)
}

func TestRateLimitedServer(t *testing.T) {
	t.Parallel()
	dir := inMemory(t)
	synctest.Test(t, func(t *testing.T) {
		s := &rateLimited{source: small("limited", 1000), tokens: 20, last: time.Now()}
		src := ok(objstore.Open(t.Context(), "limited://b", &objstore.Options{Drivers: map[string]objstore.Opener{
			"limited": func(context.Context, *url.URL, *objstore.Options) (objstore.Source, error) { return s, nil }}}))(t)
		p := ok(Open(context.Background(), dir, &Options{Workers: 16, MinFree: -1}))(t)
		defer p.Close()
		var refs []*Ref
		for i := range 100 {
			refs = append(refs, p.Prefetch(src, fmt.Sprint(i)))
		}
		for _, l := range refs {
			wantBytes(t, l, s.source, 0)
			l.Release()
		}
		if s.refused == 0 {
			t.Error("no request was refused")
		}
	})
}

// rateLimited is a source that answers 20 requests a second.
type rateLimited struct {
	*source
	mu      sync.Mutex
	tokens  float64
	last    time.Time
	refused int
}

func (s *rateLimited) Read(ctx context.Context, name string, offset, length int64,
	match *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	s.mu.Lock()
	now := time.Now()
	s.tokens, s.last = min(20, s.tokens+20*now.Sub(s.last).Seconds()), now
	refused := s.tokens < 1
	if refused {
		s.refused++
	} else {
		s.tokens--
	}
	s.mu.Unlock()
	if refused {
		return objstore.Info{}, nil, &objstore.Error{Op: "reading", URL: s.ID(name), Status: http.StatusTooManyRequests}
	}
	return s.source.Read(ctx, name, offset, length, match)
}
