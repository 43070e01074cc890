//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
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
			began := make(chan struct{})
			var once sync.Once
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tag != "" {
					w.Header().Set("ETag", tag)
				}
				http.ServeContent(&countedAnswer{w, func(n int) {
					if sent.Add(int64(n)) > 20*mib {
						once.Do(func() { close(began) })
						time.Sleep(time.Millisecond) // so that it is not over when the server stops
					}
				}}, r, "", time.Time{}, bytes.NewReader(data))
			})
			l := ok(net.Listen("tcp", "127.0.0.1:0"))(t)
			s := &http.Server{Handler: handler}
			go s.Serve(l)
			src := ok(objstore.Open(t.Context(), "http://"+l.Addr().String(), nil))(t)
			defer src.Close()
			p := ok(Open(t.TempDir(), &Options{RangeBytes: mib, MinFree: -1}))(t) // as people have it
			defer p.Close()
			lazy := p.Prefetch(src, "big.bin")
			defer lazy.Release()
			copied := make(chan error, 1)
			go func() { copied <- lazy.WaitStaged(t.Context()) }() // which makes no attempt of its own, as Bytes does
			<-began
			must(t, s.Close())
			time.Sleep(3 * time.Second)
			l = ok(net.Listen("tcp", l.Addr().String()))(t)
			s = &http.Server{Handler: handler}
			go s.Serve(l)
			defer s.Close()
			must(t, <-copied)
			if b, err := lazy.Bytes(t.Context()); err != nil || !bytes.Equal(b, data) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if n := p.Counters().Retries; n == 0 {
				t.Error("nothing was tried again")
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
	var mu sync.Mutex
	tokens, last := 20.0, time.Now()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := time.Now()
		tokens, last = min(20, tokens+20*now.Sub(last).Seconds()), now
		refused := tokens < 1
		if !refused {
			tokens--
		}
		mu.Unlock()
		if refused {
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		w.Header().Set("ETag", `"1"`)
		fmt.Fprint(w, r.URL.Path)
	}))
	defer s.Close()
	src := ok(objstore.Open(t.Context(), s.URL, nil))(t)
	defer src.Close()
	p := ok(Open(t.TempDir(), &Options{Workers: 16, MinFree: -1}))(t)
	defer p.Close()
	var lazies []*Ref
	for i := range 100 {
		lazies = append(lazies, p.Prefetch(src, fmt.Sprint(i)))
	}
	for i, l := range lazies {
		if b, err := l.Bytes(t.Context()); err != nil || string(b) != fmt.Sprint("/", i) {
			t.Errorf("object %d: %q, %v", i, b, err)
		}
		l.Release()
	}
}
