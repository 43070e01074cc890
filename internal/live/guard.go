package live

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// guard refuses requests of clients that may not see the page.
type guard struct {
	hosts  hosts
	token  string
	cookie string // its name; unique, since all ports of a host share their cookies
}

func newGuard(host string, at netip.Addr, token string) *guard {
	return &guard{newHosts(host, at), token, "leat-" + newToken()[:8]}
}

// newToken returns 128 random bits.
func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// protect passes requests to h that name this host, only read, and have the token.
func (g *guard) protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range map[string]string{
			"Cache-Control":              "no-store",
			"Content-Security-Policy":    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"Cross-Origin-Opener-Policy": "same-origin",
			// other ports of this host are the same site, and receive the cookie
			"Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
		} {
			w.Header().Set(k, v)
		}
		switch {
		case !g.hosts.allow(r.Host):
			refuse(w, http.StatusMisdirectedRequest,
				"This page is not served under that name. Open the address that was printed, or let the run listen at HOST:PORT.")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "This page is read-only.")
		case g.isToken(r.URL.Query().Get("token")):
			http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
			if r.URL.Path == "/" { // keep the token out of the address bar, histories and screenshots
				w.Header().Set("Location", "/")
				w.WriteHeader(http.StatusSeeOther)
				return
			}
			h.ServeHTTP(w, r)
		case g.hasToken(r):
			h.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Site") == "cross-site" &&
			r.Header.Get("Sec-Fetch-Mode") == "navigate":
			// A browser does not send a Strict cookie when it follows a link on another site, such
			// as a terminal in a browser. It does when our own page reloads, which is not
			// cross-site, so that this happens once.
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte(`<!DOCTYPE html><html lang="en"><title>leat</title><meta http-equiv="refresh" content="0;url=/">`))
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized,
				"Open the URL that was printed when the run started: it contains the token. Scripts send it as ?token=TOKEN, or as \"Authorization: Bearer TOKEN\".")
		}
	})
}

// refuse answers with a sentence and closes the connection, so that another client can have it.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Connection", "close")
	http.Error(w, text, status)
}

// hasToken reports whether a request has the token in its headers.
func (g *guard) hasToken(r *http.Request) bool {
	kind, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(kind, "Bearer") && g.isToken(strings.TrimSpace(token)) {
		return true
	}
	for _, c := range r.CookiesNamed(g.cookie) {
		if g.isToken(c.Value) {
			return true
		}
	}
	return false
}

func (g *guard) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
}

// hosts holds the host names under which the page may be requested. A name that somebody else
// points to this address (DNS rebinding) is not among them. The port does not matter, and differs
// where ssh tunnels it.
type hosts struct {
	names   map[string]bool
	anyAddr bool // any address is allowed, since addresses can't be rebound
}

func newHosts(host string, at netip.Addr) hosts {
	at = at.Unmap()
	h := hosts{names: map[string]bool{canonical(host): true, canonical(at.String()): true},
		anyAddr: at.IsUnspecified()}
	if at.IsLoopback() || at.IsUnspecified() {
		for _, n := range []string{"localhost", "127.0.0.1", "::1"} {
			h.names[n] = true
		}
	}
	if at.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			h.names[canonical(name)] = true
		}
	}
	return h
}

// canonical returns a host name or address in the form in which it is compared.
func canonical(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return host
}

// allow reports whether a Host header names one of the hosts.
func (h hosts) allow(header string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = canonical(host)
	if h.names[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return h.anyAddr && err == nil
}
