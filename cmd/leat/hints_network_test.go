package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNetworkHints(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("data")) })
	secure, plain := httptest.NewUnstartedServer(ok), httptest.NewServer(ok)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	dir := t.TempDir()
	leat(t, exitDone, dir, "demo", "--size", "64", ".")
	get := []string{"stage", "get", "--retry-for", "0", "-o", "-"}
	for _, c := range []struct {
		name, hint string
		args       []string
	}{
		{"unknown CA", "SSL_CERT_FILE", append(get, secure.URL+"/a.tif")},
		{"https for http", "use http in place of https", append(get, strings.Replace(plain.URL, "http", "https", 1)+"/a.tif")},
		{"http for https", "one for https", append(get, strings.Replace(secure.URL, "https", "http", 1)+"/a.tif")},
		{"port in use", "another program listens at that port",
			[]string{"apply", "-i", "a=B04.tif", "-o", "o=o.tif", "-e", "a", "--serve", port}},
		{"port of metrics in use", "another program listens at that port",
			append(get, "--metrics", port, plain.URL+"/a.tif")},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := leat(t, exitFailed, dir, c.args...)
			_, hint, _ := strings.Cut(said, "\nhint: ")
			if !strings.Contains(hint, c.hint) {
				t.Errorf("%q", said)
			}
		})
	}
}
