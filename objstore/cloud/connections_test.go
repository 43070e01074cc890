//go:build !nocloud

package cloud

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"leat/objstore"
)

func TestS3RequestsUseOwnConnections(t *testing.T) {
	var major atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		major.Store(int64(r.ProtoMajor))
		w.WriteHeader(http.StatusNotFound)
	}))
	srv.EnableHTTP2 = true // as MinIO offers it
	srv.StartTLS()
	defer srv.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	b := open(t, "s3://box", &objstore.Options{Endpoint: srv.URL, Anonymous: true})
	if _, err := b.Stat(t.Context(), "x"); major.Load() != 1 {
		t.Errorf("asked by HTTP/%d, %v", major.Load(), err)
	}
}

func TestS3StallClosesIdleConnections(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer srv.Close()
	src, err := openS3(t.Context(), &url.URL{Scheme: "s3", Host: "box"},
		&objstore.Options{Endpoint: srv.URL, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	b := src.(*bucket)
	defer b.Close()
	closed, idle := 0, b.idle
	b.idle = func() { closed++; idle() }
	_, err = objstore.Retry{MaxAttempts: 1, StallTimeout: 10 * time.Millisecond}.Stat(t.Context(), b, "x")
	if !errors.Is(err, objstore.ErrStalled) || closed != 1 {
		t.Errorf("closed %d times, %v", closed, err)
	}
}
