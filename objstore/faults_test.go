package objstore_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/objstore"
	"leat/objstore/internal/transport"
)

func TestShortRangeIsResumed(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("0123456789"), 100)
	var n atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		n.Add(1)
		var first, last int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
			t.Error(err)
		}
		last = min(last, first+99)
		w.Header().Set("ETag", `"v"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(data)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(data[first : last+1])
		return true
	}
	var retries atomic.Int64
	got, err := readAll(t.Context(), quick(&retries), open(t, s.URL, nil), "o", 50, 430)
	if !bytes.Equal(got, data[50:480]) || err != nil || n.Load() != 5 {
		t.Errorf("%d bytes, %v, %d requests", len(got), err, n.Load())
	}
}

func TestChangingSizeIsErrChanged(t *testing.T) {
	s := serve(t)
	size := 100
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		size++
		w.Header().Set("ETag", `"the same"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-9/%d", size))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 10))
		return true
	}
	b := open(t, s.URL, nil)
	first, body, err := b.Read(t.Context(), "o", 0, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	if _, _, err := b.Read(t.Context(), "o", 0, 10, &first); !errors.Is(err, objstore.ErrChanged) {
		t.Error(err)
	}
}

func TestRangePastEndIsEmpty(t *testing.T) {
	s := serve(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "100")
		if r.Method != http.MethodHead {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}
		return true
	}
	b := open(t, s.URL, nil)
	for _, offset := range []int64{100, 1000} {
		i, body, err := b.Read(t.Context(), "o", offset, math.MaxInt64, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); len(got) > 0 || err != nil || i.Size != 100 {
			t.Error(got, err, i)
		}
		body.Close()
	}
	_, _, err := b.Read(t.Context(), "o", 50, 10, nil)
	if e := new(objstore.Error); !errors.As(err, &e) || e.Status != 416 {
		t.Error(err)
	}
	if _, _, err := b.Read(t.Context(), "o", -1, 10, nil); err == nil {
		t.Error("a negative offset")
	}
}

func TestRedirectsKeepSecrets(t *testing.T) {
	other := serve(t)
	other.put("x", nil)
	s := serve(t)
	to := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/x"
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, to, http.StatusFound)
		return true
	}
	b := open(t, s.URL, nil)
	if _, err := b.Stat(t.Context(), "y?sig=geheim"); err != nil {
		t.Error(err)
	}
	for _, r := range other.requests {
		if len(r.Header["Referer"]) > 0 {
			t.Error("the signature went to another host: ", r.Header["Referer"])
		}
	}
	for _, to = range []string{"http://h/%zz?sig=geheim", "/%zz?X-Amz-Signature=geheim",
		"http://me:geheim@" + closedPort(t) + "/", s.URL + "/again?sig=geheim"} {
		if _, err := b.Stat(t.Context(), "y"); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestPasswordIsNotSentUnencrypted(t *testing.T) {
	plain := serve(t)
	plain.put("x", nil)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/x", http.StatusFound)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "https://")
	if _, err := open(t, "https://u:geheim@"+host, &objstore.Options{Client: s.Client()}).Stat(t.Context(),
		"y"); err == nil || len(plain.requests) > 0 {
		t.Error(err)
	}
	if _, err := open(t, s.URL, &objstore.Options{Client: s.Client()}).Stat(t.Context(), "y"); err != nil {
		t.Error(err)
	}
	_, err := open(t, s.URL, nil).Stat(t.Context(), "y")
	if !errors.As(err, new(x509.UnknownAuthorityError)) || objstore.Temporary(err) {
		t.Error(err)
	}
}

func TestProxyErrorHasNoPassword(t *testing.T) {
	c := transport.NewClient()
	c.Transport.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) {
		return nil, errors.New(`invalid proxy address "http://me:geheim@proxy"`)
	}
	if _, err := open(t, "http://h", &objstore.Options{Client: c}).Stat(t.Context(),
		"x"); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
}

func TestErrorHasNoControlCharacters(t *testing.T) {
	_, err := open(t, t.TempDir(), nil).Stat(t.Context(), "a\x1b[2Jb")
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
}

func TestFileChangedDuringRead(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"cut off":      func(p string) error { return os.Truncate(p, 100_000) },
		"longer":       func(p string) error { return os.Truncate(p, 300_000) },
		"written into": func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1e9, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := filepath.Join(dir, "x")
			if err := os.WriteFile(p, make([]byte, 200_000), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, r := range []func(*objstore.Bucket) (objstore.Info, io.ReadCloser, error){
				func(b *objstore.Bucket) (objstore.Info, io.ReadCloser, error) {
					return b.Read(t.Context(), "x", 0, -1, nil)
				},
				func(b *objstore.Bucket) (objstore.Info, io.ReadCloser, error) {
					return objstore.Retry{}.Read(t.Context(), b, "x", 0, -1, nil)
				},
			} {
				_, body, err := r(open(t, dir, nil))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(body, make([]byte, 50_000)); err != nil {
					t.Fatal(err)
				}
				if err := change(p); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(body); !errors.Is(err, objstore.ErrChanged) {
					t.Errorf("%v", err)
				}
				body.Close()
				if err := os.WriteFile(p, make([]byte, 200_000), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// memory is a Source of one object that announces one size and sends other bytes.
type memory struct {
	size  int64
	gives func(offset, length int64) io.ReadCloser
	calls int
}

func (*memory) ID(name string) string { return "memory:" + name }
func (m *memory) Stat(context.Context, string) (objstore.Info, error) {
	return objstore.Info{Size: m.size}, nil
}
func (m *memory) Read(_ context.Context, _ string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	m.calls++
	return objstore.Info{Size: m.size, ETag: "v"}, m.gives(offset, length), nil
}

func TestShortSourceIsResumed(t *testing.T) {
	data := []byte("0123456789")
	for name, wrap := range map[string]func(r io.Reader) io.ReadCloser{
		"a reader":   func(r io.Reader) io.ReadCloser { return io.NopCloser(struct{ io.Reader }{r}) },
		"a WriterTo": io.NopCloser,
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{size: 10, gives: func(offset, length int64) io.ReadCloser {
				return wrap(bytes.NewReader(data[offset:min(10, offset+4)]))
			}}
			_, body, err := objstore.Retry{MinPause: 1}.Read(t.Context(), m, "x", 0, -1, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			n, err := io.Copy(&got, body)
			if got.String() != string(data) || n != 10 || err != nil || m.calls != 3 {
				t.Errorf("%q %d %v, %d calls", got.String(), n, err, m.calls)
			}
			if err := body.Close(); err != nil {
				t.Error(err)
			}
			if _, err := body.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

func TestUnknownSize(t *testing.T) {
	for name, wrap := range map[string]func(r io.Reader) io.ReadCloser{
		"a reader":   func(r io.Reader) io.ReadCloser { return io.NopCloser(struct{ io.Reader }{r}) },
		"a WriterTo": io.NopCloser,
	} {
		for _, length := range []int64{-1, 4, 5, 1000} {
			m := &memory{size: -1, gives: func(int64,
				int64) io.ReadCloser {
				return wrap(strings.NewReader("12345"[:min(5, uint64(length))]))
			}}
			got, err := readAll(t.Context(), objstore.Retry{}, m, "x", 0, length)
			var n int64
			_, body, err2 := objstore.Retry{}.Read(t.Context(), m, "x", 0, length, nil)
			if err2 == nil {
				n, err2 = io.Copy(io.Discard, body)
				body.Close()
			}
			if want := min(5, uint64(length)); uint64(len(got)) != want || err != nil || uint64(n) != want ||
				err2 != nil || m.calls != 2 {
				t.Errorf("%s, %d: %q %v, %d %v", name, length, got, err, n, err2)
			}
		}
	}
}

func TestTooManyBytesIsAnError(t *testing.T) {
	for name, wrap := range map[string]func(r io.Reader) io.ReadCloser{
		"a reader":   func(r io.Reader) io.ReadCloser { return io.NopCloser(struct{ io.Reader }{r}) },
		"a WriterTo": io.NopCloser,
	} {
		for _, length := range []int64{-1, 5} {
			m := &memory{size: 10, gives: func(int64,
				int64) io.ReadCloser {
				return wrap(bytes.NewReader(make([]byte, 11)))
			}}
			_, body, err := objstore.Retry{}.Read(t.Context(), m, "x", 0, length, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, body); err == nil || !strings.Contains(err.Error(), m.ID("x")) {
				t.Errorf("%s, %d: %v", name, length, err)
			}
			body.Close()
		}
	}
}

func TestConnectTimeoutIsRetried(t *testing.T) {
	_, err := (&net.Dialer{Deadline: time.Now().Add(-time.Second)}).Dial("tcp", "127.0.0.1:1")
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Skip("this is not how a dialer's end looks: ", err)
	}
	if !objstore.Temporary(&objstore.Error{Op: "reading", URL: "http://h/x", Err: err}) {
		t.Error(err)
	}
	if objstore.Temporary(context.DeadlineExceeded) {
		t.Error("the caller's own deadline was tried again")
	}
}

func TestBucketURLErrors(t *testing.T) {
	for _, u := range []string{"https://h/dir?token=geheim", "https://h?sig=geheim", "http://", "s3://k:geheim@b",
		"s3://b?region=x", "file://host/x", "file:///a?b", "file:///a#b", ""} {
		o := &objstore.Options{Drivers: map[string]objstore.Opener{"s3": func(context.Context, *url.URL,
			*objstore.Options) (objstore.Source, error) {
			return &memory{}, nil
		}}}
		if b, err := objstore.Open(t.Context(), u, o); err == nil || b != nil || strings.Contains(err.Error(),
			"geheim") {
			t.Errorf("%s: %v %v", u, b, err)
		}
	}
	for _, u := range []string{"file:///a?b", "file:///a#b.tif"} {
		if _, _, err := objstore.Split(u); err == nil {
			t.Error(u)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("rel/in", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("rel/in/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, "rel", nil)
	if _, err := b.Stat(t.Context(), "in/x"); err != nil {
		t.Error(err)
	}
	for _, err := range b.List(t.Context(), "no/such/folder/") {
		t.Error(err)
	}
}

func TestCloseDoesNotDrain(t *testing.T) {
	s := serve(t)
	done := make(chan struct{})
	defer close(done)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		<-done // and send nothing more
		return true
	}
	closed := make(chan error, 1)
	go func() {
		got, err := readAll(context.Background(), objstore.Retry{}, open(t, s.URL, nil), "o", 2, 8)
		if len(got) != 8 {
			err = fmt.Errorf("%d bytes, %w", len(got), err)
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for bytes that nobody wants")
	}
}
