package listen

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"leat/internal/metric"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter adds a counter with the value 1.
func counter(s *metric.Set) { s.Counter("test_total", "A test.", 1) }

func TestListen(t *testing.T) {
	s, err := Metrics("0", counter)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL, "http://127.0.0.1:") || !strings.HasSuffix(s.URL, "/metrics") {
		t.Errorf("%s", s.URL)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for accept, want := range map[string]string{"": "\ntest_total 1\n",
		"application/openmetrics-text; version=1.0.0": "# TYPE test counter\ntest_total 1.0\n"} {
		r, err := http.NewRequest("GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%q: %v, %v, no %q in\n%s", accept, resp.Status, err, want, body)
		}
	}
	resp, err := client.Post(s.URL, "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Error(resp.Status)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.Get(s.URL); err == nil {
		t.Error("it is still served")
	}
}

func TestListenAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Metrics(l.Addr().String(), counter); err == nil {
		t.Error("no error")
	}
}

func TestResolve(t *testing.T) {
	for address, want := range map[string]string{"9100": "127.0.0.1:9100", ":9100": "127.0.0.1:9100",
		"0": "127.0.0.1:0", "0.0.0.0:9100": "0.0.0.0:9100", "[::1]:91": "[::1]:91",
		"host.example:1": "host.example:1", "[::]:9100": "[::]:9100", ":09100": "127.0.0.1:9100"} {
		if host, port, err := Resolve(address); err != nil || net.JoinHostPort(host, port) != want {
			t.Errorf("%q: %q, %q, %v, expected %q", address, host, port, err, want)
		}
	}
	for _, address := range []string{"", ":", "x", "h:x", "1:2:3", "65536", ":-1", "http://h:1", "::1", "1.2.3.4"} {
		if _, _, err := Resolve(address); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
