package objstore_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/objstore"
	"leat/objstore/internal/transport"
)

// forgetful forwards connections to a server until it drops those that it has: they stay open but
// carry nothing more, as behind a router that was restarted.
type forgetful struct {
	listener net.Listener
	server   string
	made     atomic.Int64
	wg       sync.WaitGroup

	mu    sync.Mutex
	alive []*atomic.Bool
	conns []net.Conn
}

func newForgetful(t *testing.T, server string) *forgetful {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{listener: l, server: server}
	f.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.pass(c)
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		f.wg.Wait()
	})
	return f
}

func (f *forgetful) pass(c net.Conn) {
	f.made.Add(1)
	s, err := net.Dial("tcp", f.server)
	if err != nil {
		c.Close()
		return
	}
	alive := new(atomic.Bool)
	alive.Store(true)
	f.mu.Lock()
	f.alive, f.conns = append(f.alive, alive), append(f.conns, c, s)
	f.mu.Unlock()
	one := func(from, to net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if !alive.Load() {
				n = 0
			}
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				if alive.Load() || errors.Is(err, net.ErrClosed) {
					to.Close()
				}
				return
			}
		}
	}
	f.wg.Go(func() { one(c, s) })
	f.wg.Go(func() { one(s, c) })
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.alive {
		a.Store(false)
	}
}

// trusting returns a client as NewClient does, which accepts the server's certificate.
func trusting() *http.Client {
	c := transport.NewClient()
	t := c.Transport.(*http.Transport)
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{}
	}
	t.TLSClientConfig.InsecureSkipVerify = true
	return c
}

// forgottenBucket returns a bucket on a server that offers HTTP/2, behind a network that drops
// connections.
func forgottenBucket(t *testing.T, h http.Handler) (*forgetful, *objstore.Bucket) {
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	f := newForgetful(t, srv.Listener.Addr().String())
	client := trusting()
	t.Cleanup(client.CloseIdleConnections)
	b, err := objstore.Open(t.Context(), "https://"+f.listener.Addr().String(), &objstore.Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return f, b
}

func TestRetryUsesNewConnection(t *testing.T) {
	f, b := forgottenBucket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, "hello")
	}))
	for _, forgotten := range []bool{false, true} {
		if forgotten {
			f.forget()
		}
		_, body, err := objstore.Retry{StallTimeout: 2 * time.Second, MinPause: time.Millisecond}.Read(t.Context(), b, "x", 0, -1,
			nil)
		if err != nil {
			t.Fatalf("forgotten %v, %d connections made: %v", forgotten, f.made.Load(), err)
		}
		text, err := io.ReadAll(body)
		body.Close()
		if err != nil || string(text) != "hello" {
			t.Errorf("forgotten %v: got %q, %v", forgotten, text, err)
		}
	}
}

func TestStallClosesIdleConnections(t *testing.T) {
	const idle = 8 // more than the attempts
	var together sync.WaitGroup
	together.Add(idle)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/together" {
			together.Done()
			together.Wait()
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer srv.Close()
	f := newForgetful(t, srv.Listener.Addr().String())
	b, err := objstore.Open(t.Context(), "http://"+f.listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	read := func(name string, stall time.Duration) error {
		r := objstore.Retry{StallTimeout: stall, MinPause: time.Millisecond}
		_, body, err := r.Read(t.Context(), b, name, 0, -1, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, body)
		return errors.Join(err, body.Close())
	}
	var wg sync.WaitGroup
	for range idle {
		wg.Go(func() {
			if err := read("together", time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.forget()
	if err := read("x", time.Second); err != nil {
		t.Errorf("%d connections made: %v", f.made.Load(), err)
	}
}

func TestConnectionReuse(t *testing.T) {
	s := serve(t)
	s.put("o", make([]byte, 100_000))
	f := newForgetful(t, s.Listener.Addr().String())
	b, err := objstore.Open(t.Context(), "http://"+f.listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i := range 10 {
		for _, length := range []int64{-1, 5, 50_000, 100_000, 200_000} {
			if _, err := readAll(t.Context(), objstore.Retry{}, b, "o", int64(i), length); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := f.made.Load(); n != 1 {
		t.Errorf("%d connections were made for requests one after the other", n)
	}
}

func TestParallelRangesUseOwnConnections(t *testing.T) {
	const ranges = 4
	all := make(chan struct{})
	var waiting atomic.Int64 // -1: the first request is alone, to open a connection
	waiting.Store(-1)
	f, b := forgottenBucket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch waiting.Add(1) {
		case 0:
			_, _ = io.WriteString(w, "hello")
			return
		case ranges: // all are in progress at once
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "hello")
	}))
	if _, err := b.Stat(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range ranges {
		wg.Go(func() {
			_, body, err := objstore.Retry{}.Read(t.Context(), b, "x", 1, 2, nil)
			if err != nil {
				t.Error(err)
				return
			}
			body.Close()
		})
	}
	wg.Wait()
	if n := f.made.Load(); n < ranges {
		t.Errorf("%d requests went by %d connections", ranges, n)
	}
}
