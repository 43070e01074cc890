package live

import (
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"leat/internal/listen"
)

var everyPath = []string{"/", "/status.json", "/events", "/metrics", "/nothing", "/page.html", "//", "/../status.json"}

func TestTokenIsRequired(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	p := New(Options{Title: "secret title", Status: run.status})
	base, token := parts(t, serve(t, p))
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(token) {
		t.Fatalf("token %q", token)
	}
	ways := map[string]func(*http.Request){
		"nothing":                   nil,
		"an empty token":            func(r *http.Request) { r.URL.RawQuery = "token=" },
		"another token":             func(r *http.Request) { r.URL.RawQuery = "token=" + newToken() },
		"a part of the token":       func(r *http.Request) { r.URL.RawQuery = "token=" + token[:31] },
		"more than the token":       func(r *http.Request) { r.URL.RawQuery = "token=" + token + "0" },
		"the token in capitals":     func(r *http.Request) { r.URL.RawQuery = "token=" + strings.ToUpper(token) + "F" },
		"a second token in a query": func(r *http.Request) { r.URL.RawQuery = "token=x&token=" + token },
		"another bearer":            bearer(newToken()),
		"an empty bearer":           bearer(""),
		"basic authorization":       func(r *http.Request) { r.SetBasicAuth("leat", token) },
		"basic without encoding":    func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) },
		"a cookie of another name":  func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "leat", Value: token}) },
		"a wrong cookie": func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookieName(t, base, token),
				Value: newToken()})
		},
		"a body": func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader("token=" +
				token))
		},
	}
	for name, change := range ways {
		for _, path := range everyPath {
			for _, method := range []string{"GET", "HEAD"} {
				resp, body := ask(t, method, base+path, change)
				if resp.StatusCode != http.StatusUnauthorized || strings.Contains(body,
					"secret") || len(resp.Cookies()) > 0 || !resp.Close {
					t.Errorf("%s, %s %s: %s, cookies %v, %q", name, method, path, resp.Status, resp.Cookies(), body)
				}
			}
		}
	}
}

// cookieName is the name of the cookie that a page sets.
func cookieName(t *testing.T, base, token string) string {
	t.Helper()
	resp, _ := ask(t, "GET", base+"/?token="+token, nil)
	if len(resp.Cookies()) != 1 {
		t.Fatalf("cookies %v", resp.Cookies())
	}
	return resp.Cookies()[0].Name
}

func TestTokenBecomesCookie(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	address := serve(t, New(Options{Status: run.status}))
	base, token := parts(t, address)
	resp, body := ask(t, "GET", address, nil)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" || body != "" {
		t.Fatalf("%s to %q, %q", resp.Status, resp.Header.Get("Location"), body)
	}
	c := resp.Cookies()[0]
	if c.Value != token || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
		!c.Expires.IsZero() || c.MaxAge != 0 {
		t.Errorf("cookie %+v", c)
	}
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/status.json": "application/json",
		"/metrics": "text/plain; version=0.0.4; "} {
		for name, change := range map[string]func(*http.Request){
			"cookie":                  func(r *http.Request) { r.AddCookie(c) },
			"wrong and right cookies": func(r *http.Request) { r.Header.Set("Cookie", c.Name+"=x; "+c.Name+"="+token) },
			"bearer":                  bearer(token),
			"bearer in small letters": func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) },
			"query": func(r *http.Request) {
				if path != "/" {
					r.URL.RawQuery = "token=" + token
				} else {
					r.AddCookie(c)
				}
			},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				resp, body := ask(t, method, base+path, change)
				if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"),
					kind) || (body == "") != (method == "HEAD") {
					t.Errorf("%s %s by %s: %s, %s, %d bytes", method, path, name, resp.Status,
						resp.Header.Get("Content-Type"), len(body))
				}
			}
		}
	}
	if resp, _ := ask(t, "GET", base+"/nothing", bearer(token)); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
	if resp, _ := ask(t, "HEAD", base+"/events", bearer(token)); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

func TestFixedToken(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	const fixed = "a token with 24+ letters"
	address := serve(t, New(Options{Status: run.status, Token: fixed}))
	base, token := parts(t, address)
	if token != "" {
		t.Errorf("the URL contains the token: %s", address)
	}
	for query, want := range map[string]int{"": 401, "?token=": 401, "?token=another": 401,
		"?token=" + url.QueryEscape(fixed): 200} {
		if resp, _ := ask(t, "GET", base+"/status.json"+query, nil); resp.StatusCode != want {
			t.Errorf("%q: %s, expected %d", query, resp.Status, want)
		}
	}
	if _, err := New(Options{Status: run.status, Token: "short"}).Listen("0"); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
}

func TestPagesHaveOwnTokens(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	base, token := parts(t, serve(t, New(Options{Status: run.status})))
	base2, token2 := parts(t, serve(t, New(Options{Status: run.status})))
	if token == token2 || cookieName(t, base, token) == cookieName(t, base2, token2) {
		t.Error("they are the same")
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	base, token := parts(t, serve(t, New(Options{Status: run.status})))
	for _, path := range everyPath {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "X"} {
			for _, change := range []func(*http.Request){nil, bearer(token)} {
				resp, _ := ask(t, method, base+path, change)
				if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s %s: %s", method, path, resp.Status)
				}
			}
		}
	}
	host := strings.TrimPrefix(base, "http://")
	for _, line := range []string{"OPTIONS * HTTP/1.1", "CONNECT " + host + " HTTP/1.1",
		"POST http://" + host + "/ HTTP/1.1"} {
		if answer := raw(t, host, line+"\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer,
			"HTTP/1.1 405 ") {
			t.Errorf("%s: %s", line, answer)
		}
	}
}

// raw sends text and returns all that comes until the server closes.
func raw(t *testing.T, host, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(seconds))
	io.WriteString(c, text) // may be cut off
	answer, err := io.ReadAll(c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("not closed after %.60q", text)
	}
	return string(answer)
}

func TestOtherHostNamesAreRefused(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	base, token := parts(t, serve(t, New(Options{Title: "secret title", Status: run.status})))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "127.0.0.1": 200, "localhost:" + port: 200, "LOCALHOST:" + port: 200,
		"localhost.:" + port: 200, "[::1]:" + port: 200,
		"localhost:9999":       200, // a tunnel by ssh
		"evil.example":         421,
		"evil.example:" + port: 421, "127.0.0.1.evil.example:" + port: 421, "localhost.evil.example": 421,
		"10.1.2.3:" + port: 421, "0.0.0.0:" + port: 421, "127.0.0.2:" + port: 421,
	} {
		resp, body := ask(t, "GET", base+"/status.json", func(r *http.Request) { bearer(token)(r); r.Host = host })
		if resp.StatusCode != want || (want != 200 && strings.Contains(body, "secret")) {
			t.Errorf("%q: %s, %q", host, resp.Status, body)
		}
	}
	// A full URL in the first line counts, whatever Host says.
	host := strings.TrimPrefix(base, "http://")
	if answer := raw(t, host, "GET http://evil.example/status.json?token="+token+" HTTP/1.1\r\nHost: "+host+
		"\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 421 ") {
		t.Error(answer)
	}
	// No Host at all: HTTP/1.0.
	if answer := raw(t, host, "GET /status.json?token="+token+" HTTP/1.0\r\n\r\n"); !strings.HasPrefix(answer,
		"HTTP/1.0 421 ") {
		t.Error(answer)
	}
}

func TestHosts(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spelled, at    string
		allow, against []string
	}{
		{"127.0.0.1", "127.0.0.1", []string{"127.0.0.1:1", "localhost"},
			[]string{"", name + ".evil.example", "192.0.2.1:1"}},
		{"::1", "::1", []string{"[::1]:1", "[::1]", "localhost:1", "127.0.0.1"}, []string{"[2001:db8::1]:1"}},
		{"node1.example", "192.0.2.7", []string{"node1.example:1", "NODE1.example.", "192.0.2.7:1"},
			[]string{"localhost", "127.0.0.1", "node2.example", "192.0.2.8"}},
		{"0.0.0.0", "0.0.0.0", []string{"192.0.2.7:1", "[2001:db8::1]:1", "localhost", name,
			strings.ToUpper(name) + ":1"},
			[]string{"evil.example", "192.0.2.7.evil.example", name + ".evil.example", ""}},
		{"::", "::", []string{"192.0.2.7:1", "[2001:db8::1]:1", "localhost:1", name + ":1"},
			[]string{"evil.example:1"}},
		{"fe80::1%eth0", "fe80::1%eth0", []string{"[fe80::1]:1"}, []string{"[fe80::2]:1"}},
	} {
		h := newHosts(c.spelled, netip.MustParseAddr(c.at))
		for _, host := range c.allow {
			if !h.allow(host) {
				t.Errorf("%s refuses %q", c.spelled, host)
			}
		}
		for _, host := range c.against {
			if h.allow(host) {
				t.Errorf("%s allows %q", c.spelled, host)
			}
		}
	}
}

func TestPortAloneIsLoopback(t *testing.T) {
	p := New(Options{Status: func() Status { return Status{} }})
	if _, err := p.Listen("h:x"); !errors.Is(err, listen.ErrAddress) {
		t.Error(err)
	}
	run := &fakeRun{blocks: 10, step: 1}
	p = New(Options{Status: run.status})
	base, _ := parts(t, serve(t, p))
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Error(base)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.IsGlobalUnicast() {
			if c, err := net.DialTimeout("tcp", net.JoinHostPort(n.IP.String(), port), seconds); err == nil {
				c.Close()
				t.Errorf("it is reached at %s", n.IP)
			}
		}
	}
}

func TestUnspecifiedAddressShowsHostName(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	p := New(Options{Status: run.status})
	u, err := p.Listen("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, p)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(u, "http://"+name+":") {
		t.Error(u)
	}
}

func TestSecurityHeaders(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	base, token := parts(t, serve(t, New(Options{Status: run.status})))
	for _, path := range []string{"/", "/status.json", "/metrics", "/nothing", "/?token=" + token} {
		for _, change := range []func(*http.Request){nil, bearer(token),
			func(r *http.Request) { r.Host = "evil.example" }} {
			resp, _ := ask(t, "GET", base+path, change)
			h := resp.Header
			policy := h.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy,
				"frame-ancestors 'none'") || strings.Contains(policy, "unsafe") ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" ||
				h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" ||
				h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s, %s: %v", path, resp.Status, h)
			}
		}
	}
}

func TestPageIsSelfContained(t *testing.T) {
	page, policy := document()
	if strings.Contains(page, "{{") || strings.Count(page, "<script>") != 1 || strings.Count(page, "<style>") != 1 {
		t.Error("it is not put together")
	}
	if got := regexp.MustCompile(`(?i)\ssrc=|@import|url\(|https?://[^ ]*|style="|\son\w+="`).FindAllString(strings.ReplaceAll(page, "xmlns='http://www.w3.org/2000/svg'", ""), -1); len(got) > 0 {
		t.Errorf("%q", got)
	}
	for _, source := range regexp.MustCompile(`'sha256-([^']*)'`).FindAllStringSubmatch(policy, -1) {
		if sum, err := base64.StdEncoding.DecodeString(source[1]); err != nil || len(sum) != 32 {
			t.Errorf("%s: %v", source[1], err)
		}
	}
}

func TestCrossSiteLinkReloadsOnce(t *testing.T) {
	run := &fakeRun{blocks: 10, step: 1}
	base, _ := parts(t, serve(t, New(Options{Title: "secret title", Status: run.status})))
	from := func(site, mode string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site); r.Header.Set("Sec-Fetch-Mode", mode) }
	}
	for _, c := range []struct {
		path, site, mode string
		again            bool
	}{{"/", "cross-site", "navigate", true}, {"/", "same-origin", "navigate", false}, {"/", "none", "navigate", false},
		{"/", "cross-site", "no-cors", false}, {"/status.json", "cross-site", "navigate", false}} {
		resp, body := ask(t, "GET", base+c.path, from(c.site, c.mode))
		if resp.StatusCode != 401 || strings.Contains(body, "refresh") != c.again || strings.Contains(body, "secret") {
			t.Errorf("%v: %s, %s", c, resp.Status, body)
		}
	}
}
