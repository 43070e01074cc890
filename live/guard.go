package live

import (
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strings"
)

// guard refuses requests that must not see the page.
type guard struct {
	hosts  hosts
	token  string
	cookie string // its name: browsers have one jar for all ports of a host, and several runs may be watched at once
}

func newGuard(spelled string, at netip.Addr) *guard {
	return &guard{newHosts(spelled, at), newToken(), "leat-" + newToken()[:8]}
}

// protect lets requests through to h that name this host, only read, and have the token.
func (g *guard) protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range map[string]string{
			"Cache-Control":              "no-store",
			"Content-Security-Policy":    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"Cross-Origin-Opener-Policy": "same-origin",
			// other ports of this host are the same site, and get the cookie sent along
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
				"This page is not served under that name: open it by the address that was printed, or let the run listen at HOST:PORT.")
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "This page can only be read.")
		case g.is(r.URL.Query().Get("token")):
			http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.token, Path: "/", HttpOnly: true,
				SameSite: http.SameSiteStrictMode})
			if r.URL.Path == "/" { // a token that stays in the address bar gets into histories and screenshots
				w.Header().Set("Location", "/")
				w.WriteHeader(http.StatusSeeOther)
				return
			}
			h.ServeHTTP(w, r)
		case g.known(r):
			h.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Site") == "cross-site" &&
			r.Header.Get("Sec-Fetch-Mode") == "navigate":
			// Who follows a link on another site, such as a terminal in a browser, has got the
			// cookie, but Strict ones are not sent on the way from there. They are when our own
			// page asks again, and that is not cross-site any more, so that this is done once.
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte(`<!DOCTYPE html><html lang="en"><title>leat</title><meta http-equiv="refresh" content="0;url=/">`))
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized,
				"Open the URL that was printed when the run started: it has the token in it. Scripts send it as ?token=TOKEN, or as \"Authorization: Bearer TOKEN\".")
		}
	})
}

// refuse answers with a sentence, and gives the connection to others.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Connection", "close")
	http.Error(w, text, status)
}

// known reports whether a request brings the token in its headers.
func (g *guard) known(r *http.Request) bool {
	if kind, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(kind,
		"Bearer") && g.is(strings.TrimSpace(token)) {
		return true
	}
	for _, c := range r.CookiesNamed(g.cookie) {
		if g.is(c.Value) {
			return true
		}
	}
	return false
}

func (g *guard) is(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
}
