package objstore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"leat/objstore"
	"leat/objstore/internal/transport"
)

// wantAbout checks that err is about an object, and that its status is status; 0: there was no
// answer.
func wantAbout(t *testing.T, err error, url string, status int) {
	t.Helper()
	if e := new(objstore.Error); !errors.As(err, &e) || e.URL != url || e.Status != status {
		t.Errorf("%v, which should be about %s, with the answer %d", err, url, status)
	}
}

func TestBrokenBodyErrorNamesObject(t *testing.T) {
	s := serve(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		cut(w, r, time.Time{}, make([]byte, 10_000), 500)
		return true
	}
	_, err := readAll(t.Context(), objstore.Retry{}, open(t, s.URL, nil), "o", 0, -1)
	wantAbout(t, err, s.URL+"/o", 0)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestConnectionClosedWithoutAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1000))
			c.Close()
		}
	}()
	_, err = open(t, "http://"+l.Addr().String(), nil).Stat(t.Context(), "x")
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if !objstore.Temporary(err) {
		t.Error("it may answer another time")
	}
}

func TestProxyRefusalError(t *testing.T) {
	for status, again := range map[int]bool{http.StatusProxyAuthRequired: false, http.StatusForbidden: false,
		http.StatusBadGateway: true} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.WriteHeader(status)
		}))
		to, err := url.Parse(strings.Replace(proxy.URL, "://", "://me:geheim@", 1))
		if err != nil {
			t.Fatal(err)
		}
		c := transport.NewClient()
		c.Transport.(*http.Transport).Proxy = http.ProxyURL(to)
		_, err = open(t, "https://h", &objstore.Options{Client: c}).Stat(t.Context(), "x")
		wantAbout(t, err, "https://h/x", 0)
		if !errors.Is(err, objstore.ErrProxy) {
			t.Errorf("%v is not an ErrProxy", err)
		}
		if strings.Contains(err.Error(), "geheim") || objstore.Temporary(err) != again || errors.Is(err,
			errors.ErrUnsupported) {
			t.Errorf("%v, again %v", err, objstore.Temporary(err))
		}
		proxy.Close()
		_, err = open(t, "http://h", &objstore.Options{Client: c}).Stat(t.Context(), "x")
		wantAbout(t, err, "http://h/x", 0)
		if !errors.Is(err, objstore.ErrProxy) {
			t.Errorf("%v is not an ErrProxy", err)
		}
	}
}

func TestFailedRedirectNamesTarget(t *testing.T) {
	s := serve(t)
	to := ""
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header()["Location"] = []string{to}[:min(len(to), 1)]
		w.WriteHeader(http.StatusMovedPermanently)
		return true
	}
	b := open(t, s.URL, nil)
	_, err := b.Stat(t.Context(), "x")
	wantAbout(t, err, s.URL+"/x", http.StatusMovedPermanently)
	to = "ftp://me:geheim@elsewhere/x?sig=geheim"
	_, err = b.Stat(t.Context(), "x")
	wantAbout(t, err, s.URL+"/x", 0)
	if strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
}

func TestIPv6Zone(t *testing.T) {
	var host string
	c := transport.NewClient()
	c.Transport = answers(func(r *http.Request) *http.Response {
		host = r.URL.Host
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}
	})
	b := open(t, "http://[fe80::1%25eth0]:8000", &objstore.Options{Client: c})
	if _, err := b.Stat(t.Context(), "x"); err != nil || host != "[fe80::1%eth0]:8000" ||
		b.ID("x") != "http://[fe80::1%25eth0]:8000/x" {
		t.Errorf("asked %q for %q, %v", host, b.ID("x"), err)
	}
}

func TestInvalidURLErrorHasNoControls(t *testing.T) {
	_, err := open(t, "http://h", nil).Stat(t.Context(), "a\x1b[2Jb\nc")
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("%q", err)
	}
}

func TestTooManyOpenFiles(t *testing.T) {
	c := transport.NewClient()
	c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	_, err := open(t, "http://h", &objstore.Options{Client: c}).Stat(t.Context(), "x")
	if !errors.Is(err, syscall.EMFILE) {
		t.Error(err)
	}
}
