package objstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/objstoretest"
	"leat/objstore"
	"leat/objstore/internal/transport"
)

func open(t *testing.T, url string, o *objstore.Options) *objstore.Bucket {
	t.Helper()
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

func TestFiles(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
		dir := t.TempDir()
		return objstoretest.Store{Source: open(t, dir, nil), Versions: true,
			Put: func(t *testing.T, name string, data []byte) {
				t.Helper()
				p := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
					t.Fatal(err)
				}
				next := filepath.Join(t.TempDir(), "next")
				if err := os.WriteFile(next, data, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(next, p); err != nil {
					t.Fatal(err)
				}
			}}
	})
}

func TestNamesStayInDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := open(t, filepath.Join(dir, "in"), nil)
	for _, name := range []string{"../secret", "/etc/passwd", "a/../../secret", ""} {
		if _, err := b.Stat(t.Context(), name); err == nil {
			t.Errorf("%q can be read", name)
		}
		if err := b.Upload(t.Context(), name, strings.NewReader(""), 0, objstore.UploadOptions{}); err == nil {
			t.Errorf("%q can be written", name)
		}
	}
	if _, err := b.Stat(t.Context(), "."); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, err := range b.List(t.Context(), "../") {
		if err == nil {
			t.Error("a list leaves the directory")
		}
	}
}

// server serves objects by path, as its fields say.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string][]byte
	requests []*http.Request
	before   func(w http.ResponseWriter, r *http.Request) bool // true: it has responded
}

func serve(t *testing.T) *server {
	s := &server{objects: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		b, ok := s.objects[r.URL.Path]
		before := s.before
		s.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(b)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) put(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects["/"+name] = data
}

func TestHTTP(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Store {
		s := serve(t)
		b := open(t, s.URL, nil)
		return objstoretest.Store{Source: escaped{b}, Versions: true,
			Put: func(t *testing.T, name string, data []byte) { s.put(name, data) }}
	})
}

// escaped is a Bucket that escapes names as URLs require.
type escaped struct{ *objstore.Bucket }

func (e escaped) url(name string) string {
	return strings.NewReplacer("%", "%25", " ", "%20", "?", "%3F", "#", "%23").Replace(name)
}

func TestServerWithoutRanges(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("0123456789"), 1000)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		if strings.HasSuffix(r.URL.Path, "chunked") {
			w.(http.Flusher).Flush()
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		}
		_, _ = w.Write(data)
		return true
	}
	b := open(t, s.URL, nil)
	for _, name := range []string{"plain", "chunked"} {
		for _, r := range [][2]int64{{0, -1}, {5, 10}, {9_990, 100}, {10_000, 5}} {
			_, body, err := b.Read(t.Context(), name, r[0], r[1], nil)
			if err != nil {
				t.Fatal(name, r, err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			end := int64(len(data))
			if r[1] >= 0 {
				end = min(end, r[0]+r[1])
			}
			if !bytes.Equal(got, data[r[0]:end]) || err != nil {
				t.Errorf("%s %v: %d bytes, %v", name, r, len(got), err)
			}
		}
	}
	if i, err := b.Stat(t.Context(), "plain"); err != nil || i.Size != int64(len(data)) {
		t.Error(i, err)
	}
}

func TestInvalidResponsesAreErrors(t *testing.T) {
	s := serve(t)
	b := open(t, s.URL, nil)
	for name, header := range map[string]string{
		"another range":      "bytes 5-14/100",
		"no range":           "",
		"nonsense":           "bytes x-y/z",
		"less than is there": "bytes 0-4/100",
		"backwards":          "bytes 9-0/100",
		"beyond the end":     "bytes 0-9/5",
		"a negative":         "bytes -1-9/100",
	} {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if header != "" {
				w.Header().Set("Content-Range", header)
			}
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(make([]byte, 10))
			return true
		}
		_, body, err := b.Read(t.Context(), "o", 0, 10, nil)
		if err == nil {
			_, err = io.ReadAll(body)
			body.Close()
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestErrorsHaveNoSecrets(t *testing.T) {
	s := serve(t)
	host := strings.TrimPrefix(s.URL, "http://")
	b := open(t, "http://user:geheim@"+host, nil)
	name := "a/b.tif?X-Amz-Signature=geheim&X-Amz-Credential=geheim&sig=geheim&token=geheim&year=2020"
	for _, status := range []int{400, 401, 403, 404, 410, 412, 416, 418, 429, 500, 501, 503} {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if u, p, _ := r.BasicAuth(); u != "user" || p != "geheim" || r.URL.Query().Get("sig") != "geheim" {
				t.Errorf("the request has lost its secrets: %v", r.URL)
			}
			w.WriteHeader(status)
			return true
		}
		_, err := b.Stat(t.Context(), name)
		_, _, err2 := b.Read(t.Context(), name, 0, -1, nil)
		for _, err := range []error{err, err2} {
			e := new(objstore.Error)
			if !errors.As(err, &e) || strings.Contains(err.Error(), "geheim") || e.Status != status ||
				!strings.Contains(e.URL, host+"/a/b.tif?year=2020") {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://"+closedPort(t)+"/x?sig=geheim", http.StatusFound)
		return true
	}
	_, _, err := b.Read(t.Context(), name, 0, -1, nil)
	if err == nil || strings.Contains(err.Error(), "geheim") {
		t.Error(err)
	}
	if id := b.ID(name); strings.Contains(id, "geheim") {
		t.Error(id)
	}
}

func TestErrorsHaveNoRedirectSecrets(t *testing.T) {
	other := serve(t)
	other.put("x", []byte("moved"))
	s := serve(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/x", http.StatusTemporaryRedirect)
		return true
	}
	b := open(t, "http://user:geheim@"+strings.TrimPrefix(s.URL, "http://"), nil)
	_, body, err := b.Read(t.Context(), "y", 2, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	body.Close()
	if string(got) != "ve" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	for _, r := range other.requests {
		if r.Header.Get("Authorization") != "" {
			t.Error("the password went to another host")
		}
	}
}

func TestPasswordStaysOnServer(t *testing.T) {
	var got []string
	c := transport.NewClient()
	to := ""
	c.Transport = answers(func(r *http.Request) *http.Response {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
		if r.URL.Path == "/first" {
			resp.StatusCode = http.StatusFound
			resp.Header.Set("Location", to)
		} else {
			_, password, _ := r.BasicAuth()
			got = append(got, password)
		}
		return resp
	})
	for _, from := range []string{"http://host", "https://host", "http://host:8000"} {
		for place, keeps := range map[string]bool{
			"/x": true, "http://host/x": from == "http://host", "https://host/x": from != "http://host:8000",
			"http://host:80/x": from == "http://host", "https://host:443/x": from != "http://host:8000",
			"http://host:8000/x": from == "http://host:8000", "http://host:9000/x": false, "https://host:8000/x": false,
			"https://sub.host/x": false, "https://other/x": false,
		} {
			if strings.HasPrefix(from, "https") && strings.HasPrefix(place, "http:") {
				continue // refused, see TestPasswordIsNotSentUnencrypted
			}
			got, to = nil, place
			b := open(t, strings.Replace(from, "://", "://user:geheim@", 1), &objstore.Options{Client: c})
			if _, err := b.Stat(t.Context(), "first"); err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 || (got[0] == "geheim") != keeps {
				t.Errorf("from %s to %s: %q", from, place, got)
			}
		}
	}
}

// answers is an http.RoundTripper without a network.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func TestUnsupportedListAndUpload(t *testing.T) {
	b := open(t, serve(t).URL, nil)
	for _, err := range b.List(t.Context(), "") {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
	if err := b.Upload(t.Context(), "x", strings.NewReader(""), 0, objstore.UploadOptions{}); !errors.Is(err,
		errors.ErrUnsupported) || b.CanUpload() {
		t.Error(err)
	}
}

func (e escaped) Stat(ctx context.Context, name string) (objstore.Info, error) {
	i, err := e.Bucket.Stat(ctx, e.url(name))
	i.Name = name
	return i, err
}

func (e escaped) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	i, body, err := e.Bucket.Read(ctx, e.url(name), offset, length, match)
	i.Name = name
	return i, body, err
}

// List hides the method of Bucket: HTTP has no lists.
func (e escaped) List() {}

func (e escaped) Upload() {}
