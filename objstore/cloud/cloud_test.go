//go:build !nocloud

package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"leat/internal/objstoretest"
	"leat/objstore"
)

// fakeS3 starts an S3 server on the loopback interface with a bucket.
func fakeS3(t *testing.T, wrap func(http.Handler) http.Handler) (endpoint string,
	put func(t *testing.T, name string, data []byte)) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(backend).Server()
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL, func(t *testing.T, name string, data []byte) {
		t.Helper()
		if _, err := backend.PutObject("bucket", name, map[string]string{}, strings.NewReader(string(data)),
			int64(len(data)), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, url string, o *objstore.Options) *objstore.Bucket {
	t.Helper()
	o.Drivers = Drivers()
	b, err := objstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestS3(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "very secret")
	objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
		endpoint, put := fakeS3(t, nil)
		return objstoretest.Store{Source: open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint}), Put: put,
			Versions: true}
	})
}

// memories numbers this process's buckets in memory, which are never closed: a repeated test must
// not find its old objects.
var memories atomic.Int64

func TestMem(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
		b := open(t, fmt.Sprintf("mem://test-%d", memories.Add(1)), &objstore.Options{})
		return objstoretest.Store{Source: b, Put: func(t *testing.T, name string, data []byte) {
			t.Helper()
			if err := b.Upload(t.Context(), name, strings.NewReader(string(data)), int64(len(data)),
				objstore.UploadOptions{}); err != nil {
				t.Fatal(err)
			}
		}}
	})
}

func TestBucketPrefix(t *testing.T) {
	endpoint, put := fakeS3(t, nil)
	put(t, "data/2020/a.tif", []byte("abc"))
	put(t, "data/2021/a.tif", nil)
	b := open(t, "s3://bucket/data/2020", &objstore.Options{Endpoint: endpoint, Anonymous: true})
	for i, err := range b.List(t.Context(), "") {
		if err != nil || i.Name != "a.tif" || i.Size != 3 {
			t.Error(i, err)
		}
	}
	if i, err := b.Stat(t.Context(), "a.tif"); err != nil || i.Name != "a.tif" || i.Size != 3 {
		t.Error(i, err)
	}
	if id := b.ID("a.tif"); !strings.HasPrefix(id, "s3://bucket/data/2020/a.tif?endpoint=http://127.0.0.1:") {
		t.Error(id)
	}
}

func TestS3Errors(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "very secret")
	t.Setenv("AWS_SESSION_TOKEN", "a token")
	for _, status := range []int{403, 404, 301, 503, 500} {
		endpoint, _ := fakeS3(t, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(status)
			})
		})
		b := open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint})
		_, _, err := b.Read(t.Context(), "a/b.tif", 0, -1, nil)
		var e *objstore.Error
		if !errors.As(err, &e) || e.Status != status || e.URL != "s3://bucket/a/b.tif" {
			t.Errorf("%d: %v", status, err)
		}
		if status == 503 && (!objstore.Temporary(e) || e.RetryAfter.Seconds() != 3) {
			t.Errorf("%+v", e)
		}
		for _, secret := range []string{"very secret", "a token", "AKIDEXAMPLE"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestMissingBucket(t *testing.T) {
	endpoint, _ := fakeS3(t, nil)
	b := open(t, "s3://other", &objstore.Options{Endpoint: endpoint, Anonymous: true})
	_, _, err := b.Read(t.Context(), "x", 0, -1, nil)
	if e := new(objstore.Error); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &e) || e.Code != "NoSuchBucket" {
		t.Error(err)
	}
	for _, err := range b.List(t.Context(), "") {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func TestMissingCredentials(t *testing.T) {
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	endpoint, put := fakeS3(t, nil)
	put(t, "x", nil)
	_, err := open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint}).Stat(t.Context(), "x")
	if !errors.Is(err, objstore.ErrNoCredentials) {
		t.Error(err)
	}
	if _, err := open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint, Anonymous: true}).Stat(t.Context(),
		"x"); err != nil {
		t.Error(err)
	}
}

func TestEscapedNames(t *testing.T) {
	var asked []string
	endpoint, _ := fakeS3(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			w.WriteHeader(404)
		})
	})
	b := open(t, "s3://bucket", &objstore.Options{Endpoint: endpoint, Anonymous: true})
	names := []string{"a\nb", "x/../y", "__0x2f__", "__0x5f____0x2f__"}
	for i, name := range names {
		_, err := b.Stat(t.Context(), name)
		_, _, err2 := b.Read(t.Context(), name, 0, 1, nil)
		if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err2, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, %v", name, err, err2)
		}
		if want := "/bucket/" + name; len(asked) != 2*i+2 || asked[2*i] != want || asked[2*i+1] != want {
			t.Errorf("%q was asked for as %q", name, asked[2*i:])
		}
	}
	for _, name := range []string{"", "no\xffutf8"} {
		if _, err := b.Stat(t.Context(), name); err == nil || len(asked) > 2*len(names) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestInvalidURLsAndEndpoints(t *testing.T) {
	for _, c := range []struct{ url, endpoint, want string }{
		{"s3://key:secret@bucket", "", "has credentials"},
		{"s3://bucket", "localhost:9000", "https://HOST"},
		{"ftp://host", "", "no store called"},
	} {
		_, err := objstore.Open(context.Background(), c.url,
			&objstore.Options{Endpoint: c.endpoint, Drivers: Drivers(), Anonymous: true})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v", c, err)
		}
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	if _, err := objstore.Open(context.Background(), "azblob://c",
		&objstore.Options{Drivers: Drivers()}); err == nil || !strings.Contains(err.Error(), "AZURE_STORAGE_ACCOUNT") {
		t.Error(err)
	}
}
