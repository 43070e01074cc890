//go:build !nocloud

package cloud

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/objstoretest"
	"leat/objstore"
)

// azure opens the container "box" of a fake server with a key.
func azure(t *testing.T) (*fake, *objstore.Bucket) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "acct")
	t.Setenv("AZURE_STORAGE_KEY", "dmVyeSBzZWNyZXQ=")
	f := newFake(t, serveAzure)
	return f, open(t, "azblob://box", &objstore.Options{Endpoint: f.URL + "/acct",
		Retry: objstore.Retry{MinPause: time.Millisecond}})
}

func gs(t *testing.T) (*fake, *objstore.Bucket) {
	f := newFake(t, serveGS)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(f.URL, "http://"))
	return f, open(t, "gs://box", &objstore.Options{Retry: objstore.Retry{MinPause: time.Millisecond}})
}

func TestAzure(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
		f, b := azure(t)
		return objstoretest.Store{Source: b, Put: f.put, Versions: true}
	})
}

func TestGS(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
		f, b := gs(t)
		return objstoretest.Store{Source: b, Put: f.put, Versions: true,
			Refuses: func(name string) bool { return strings.Contains(name, "__0x") }}
	})
}

func TestChecksumsAreOfWholeObject(t *testing.T) {
	data := []byte("some bytes")
	f, a := azure(t)
	f.put(t, "x", data)
	g, b := gs(t)
	g.put(t, "x", data)
	for _, src := range []*objstore.Bucket{a, b} {
		i, err := src.Stat(t.Context(), "x")
		j, body, err2 := src.Read(t.Context(), "x", 2, 3, nil)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		body.Close()
		if fmt.Sprintf("%x", i.CRC32C) != fmt.Sprintf("%x", j.CRC32C) || len(i.CRC32C) == 0 && len(j.MD5) == 0 {
			t.Errorf("%+v, %+v", i, j)
		}
	}
}

func TestListRetriesPage(t *testing.T) {
	for name, opened := range map[string]func(*testing.T) (*fake, *objstore.Bucket){"azblob": azure, "gs": gs} {
		t.Run(name, func(t *testing.T) {
			f, b := opened(t)
			for i := range 1500 {
				f.put(t, fmt.Sprintf("%04d", i), nil)
			}
			var n int
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if n++; n%3 == 2 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return n%3 == 2
			}
			got := 0
			for i, err := range b.List(t.Context(), "") {
				if err != nil || i.Name != fmt.Sprintf("%04d", got) {
					t.Fatal(i, err)
				}
				got++
			}
			if got != 1500 || n < 3 {
				t.Errorf("%d objects by %d requests", got, n)
			}
		})
	}
}

func TestReadIsOneRequest(t *testing.T) {
	for name, opened := range map[string]func(*testing.T) (*fake, *objstore.Bucket){"azblob": azure, "gs": gs} {
		t.Run(name, func(t *testing.T) {
			f, b := opened(t)
			var n atomic.Int64
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				n.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			_, _, err := b.Read(t.Context(), "x", 0, 1, nil)
			_, err2 := b.Stat(t.Context(), "x")
			if !objstore.Temporary(err) || !objstore.Temporary(err2) || n.Load() != 2 {
				t.Errorf("%v, %v, %d requests", err, err2, n.Load())
			}
		})
	}
}

func TestIncompleteResponsesAreErrors(t *testing.T) {
	list := `<?xml version="1.0"?><ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>`
	endpoint, _ := fakeS3(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, list) })
	})
	f, a := azure(t)
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, `<?xml version="1.0"?><EnumerationResults><Blobs><Blob><Name>a</Name></Blob></Blobs></EnumerationResults>`)
		return true
	}
	for _, b := range []*objstore.Bucket{open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint, Anonymous: true}),
		a} {
		n := 0
		for _, err := range b.List(t.Context(), "") {
			if n++; !errors.Is(err, objstore.ErrProtocol) {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d", n)
		}
	}
	if _, _, err := a.Read(t.Context(), "x", 0, -1, nil); err == nil {
		t.Error("an answer without a time of change was taken")
	}
}

func TestBucketInOtherRegion(t *testing.T) {
	endpoint, put := fakeS3(t, nil)
	put(t, "x", []byte("there"))
	at, _ := url.Parse(endpoint)
	var asked []string
	o := &objstore.Options{Anonymous: true, Region: "eu-north-1",
		Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = append(asked, r.URL.Host)
			if !strings.Contains(r.URL.Host, "us-west-2") {
				return &http.Response{StatusCode: 301, Header: http.Header{"X-Amz-Bucket-Region": {"us-west-2"}},
					Body: http.NoBody, Request: r}, nil
			}
			r = r.Clone(r.Context())
			r.URL.Scheme, r.URL.Host, r.Host, r.URL.Path = "http", at.Host, at.Host, "/bucket"+r.URL.Path
			return http.DefaultTransport.RoundTrip(r)
		})}}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	b := open(t, "s3://bucket", o)
	if i, err := b.Stat(t.Context(), "x"); err != nil || i.Size != 5 {
		t.Error(i, err)
	}
	_, body, err := b.Read(t.Context(), "x", 1, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(body); string(got) != "here" || err != nil {
		t.Error(got, err)
	}
	body.Close()
	if len(asked) != 3 { // the second request goes to the right region at once
		t.Errorf("%q", asked)
	}
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestUploadRetries(t *testing.T) {
	var n atomic.Int64
	endpoint, _ := fakeS3(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && n.Add(1)%2 == 1 {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	b := open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint, Anonymous: true,
		Retry: objstore.Retry{MaxAttempts: 8, MaxPause: 10 * time.Millisecond}})
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	if err := b.Upload(t.Context(), "big", bytes.NewReader(data), int64(len(data)),
		objstore.UploadOptions{}); err != nil {
		t.Fatal(err)
	}
	_, body, err := b.Read(t.Context(), "big", 0, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); !bytes.Equal(got, data) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestOneObjectHasOneID(t *testing.T) {
	anon := &objstore.Options{Anonymous: true}
	at := func(e string) *objstore.Options { return &objstore.Options{Anonymous: true, Endpoint: e} }
	t.Setenv("AZURE_STORAGE_ACCOUNT", "one")
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	seen := map[string]string{}
	for _, c := range []struct {
		url, name string
		o         *objstore.Options
	}{
		{"s3://b", "x", anon}, {"s3://b", "x?endpoint=http://h", anon}, {"s3://b", "x%3Fendpoint=http://h", anon},
		{"s3://b", "x", at("http://h")}, {"s3://b", "x", at("https://h")},
		{"s3://b", "x", at("https://h/path")}, {"s3://b", "x?sig=1", anon}, {"s3://b", "x?sig=2", anon},
		{"gs://b", "x", anon}, {"azblob://b", "x", anon}, {"azblob://b", "x", at("https://two.blob.core.windows.net")},
	} {
		id := open(t, c.url, c.o).ID(c.name)
		if other, ok := seen[id]; ok || strings.Contains(id, "sig=") {
			t.Errorf("%s of %s %s is that of %s", id, c.url, c.name, other)
		}
		seen[id] = c.url + " " + c.name
	}
	a, b := open(t, "s3://b", at("https://H:443/")).ID("x"), open(t, "s3://b", at("https://h")).ID("x")
	if a != b {
		t.Error(a, b)
	}
}

func TestAzureAndGSErrorsHaveNoSecrets(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "acct")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2020&sig=geheim")
	f := newFake(t, serveAzure)
	b := open(t, "azblob://box", &objstore.Options{Endpoint: f.URL + "/acct"})
	for _, status := range []int{400, 401, 403, 404, 409, 412, 429, 500, 503} {
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("sig") != "geheim" {
				t.Errorf("%v is not signed", r.URL)
			}
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(status)
			return true
		}
		_, _, err := b.Read(t.Context(), "x", 0, 1, nil)
		var e *objstore.Error
		if !errors.As(err, &e) || e.Status != status || e.RetryAfter != 2*time.Second || strings.Contains(err.Error(),
			"geheim") {
			t.Errorf("%d: %v", status, err)
		}
	}
	f.Close()
	if _, err := b.Stat(t.Context(), "x"); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	if id := b.ID("x"); strings.Contains(id, "geheim") {
		t.Error(id)
	}
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	t.Setenv("AZURE_STORAGE_KEY", "geheim!")
	if _, err := objstore.Open(t.Context(), "azblob://box",
		&objstore.Options{Drivers: Drivers()}); err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
}

func TestRefusedUploadError(t *testing.T) {
	for name, make := range map[string]func(*testing.T) (*fake, *objstore.Bucket){"azure": azure, "gs": gs} {
		f, b := make(t)
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		err := b.Upload(t.Context(), "x", strings.NewReader("abc"), 3, objstore.UploadOptions{})
		var e *objstore.Error
		if !errors.As(err, &e) || e.Status != http.StatusForbidden || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
