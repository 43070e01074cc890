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
)

// wantWords checks that err's text has all of the words.
func wantWords(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
}

func TestBrokenBodyErrorNamesObject(t *testing.T) {
	s := serve(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		cut(w, r, time.Time{}, make([]byte, 10_000), 500)
		return true
	}
	_, err := readAll(t.Context(), objstore.Retry{}, open(t, s.URL, nil), "o", 0, -1)
	wantWords(t, err, s.URL+"/o", "before all bytes")
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
	wantWords(t, err, "closed without an answer")
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
		c := objstore.NewClient()
		c.Transport.(*http.Transport).Proxy = http.ProxyURL(to)
		_, err = open(t, "https://h", &objstore.Options{Client: c}).Stat(t.Context(), "x")
		wantWords(t, err, "https://h/x", "the proxy "+to.Host, http.StatusText(status))
		if strings.Contains(err.Error(), "geheim") || objstore.Temporary(err) != again || errors.Is(err,
			errors.ErrUnsupported) {
			t.Errorf("%v, again %v", err, objstore.Temporary(err))
		}
		proxy.Close()
		_, err = open(t, "http://h", &objstore.Options{Client: c}).Stat(t.Context(), "x")
		wantWords(t, err, "http://h/x", to.Host)
		if !errors.Is(err, objstore.ErrProxy) {
			t.Errorf("%v is no ErrProxy", err)
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
	wantWords(t, err, "301", "redirect")
	to = "ftp://me:geheim@elsewhere/x?sig=geheim"
	_, err = b.Stat(t.Context(), "x")
	wantWords(t, err, s.URL+"/x", "redirected to ftp://elsewhere")
	if strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
}

func TestIPv6Zone(t *testing.T) {
	var host string
	c := objstore.NewClient()
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
	c := objstore.NewClient()
	c.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	_, err := open(t, "http://h", &objstore.Options{Client: c}).Stat(t.Context(), "x")
	wantWords(t, err, "too many open files")
}
