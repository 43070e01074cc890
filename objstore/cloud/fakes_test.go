//go:build !nocloud

package cloud

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is the common part of the servers of this file: objects with versions.
type fake struct {
	*httptest.Server
	t        *testing.T
	mu       sync.Mutex
	objects  map[string]object
	pending  map[string][]byte // received parts of unfinished objects
	versions int64
	before   func(w http.ResponseWriter, r *http.Request) bool // true: it has responded
}

type object struct {
	data    []byte
	version int64
	at      time.Time
}

func newFake(t *testing.T, serve func(f *fake, w http.ResponseWriter, r *http.Request)) *fake {
	f := &fake{t: t, objects: map[string]object{}, pending: map[string][]byte{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.before != nil && f.before(w, r) {
			return
		}
		serve(f, w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) put(t *testing.T, name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(name, data)
}

func (f *fake) set(name string, data []byte) {
	f.versions++
	f.objects[name] = object{data, f.versions, time.Unix(1_600_000_000, 0).UTC()}
}

// page returns up to most names with the prefix that follow after, in order.
func (f *fake) page(prefix, after string, most int) (names []string, more bool) {
	for n := range f.objects {
		if strings.HasPrefix(n, prefix) && n > after {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names[:min(most, len(names))], len(names) > most
}

// serveAzure implements what azblob uses of Azure's protocol, for the container "box" of the
// account "acct".
func serveAzure(f *fake, w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.Header().Set("x-ms-error-code", code)
		w.WriteHeader(status)
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/acct/box")
	name = strings.TrimPrefix(name, "/")
	q := r.URL.Query()
	w.Header().Set("x-ms-version", "2024-01-01")
	switch {
	case !ok:
		refuse(404, "ContainerNotFound")
	case q.Get("comp") == "list":
		most, _ := strconv.Atoi(q.Get("maxresults"))
		names, more := f.page(q.Get("prefix"), q.Get("marker"), most)
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
		for _, n := range names {
			o := f.objects[n]
			fmt.Fprint(w, "<Blob><Name>")
			_ = xml.EscapeText(w, []byte(n))
			fmt.Fprintf(w, "</Name><Properties><Last-Modified>%s</Last-Modified><Content-Length>%d</Content-Length></Properties></Blob>", o.at.Format(http.TimeFormat), len(o.data))
		}
		fmt.Fprint(w, "</Blobs><NextMarker>")
		if more {
			_ = xml.EscapeText(w, []byte(names[len(names)-1]))
		}
		fmt.Fprint(w, "</NextMarker></EnumerationResults>")
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // cancelled
		}
		if _, there := f.objects[name]; there && r.Header.Get("If-None-Match") == "*" {
			refuse(http.StatusConflict, "BlobAlreadyExists")
			return
		}
		switch q.Get("comp") {
		case "block":
			f.pending[q.Get("blockid")] = body
		case "blocklist":
			var ids struct{ Latest []string }
			if err := xml.Unmarshal(body, &ids); err != nil {
				f.t.Error(err)
			}
			var all []byte
			for _, id := range ids.Latest {
				all = append(all, f.pending[id]...)
			}
			f.set(name, all)
		default:
			f.set(name, body)
		}
		w.WriteHeader(http.StatusCreated)
	default:
		o, ok := f.objects[name]
		if !ok {
			refuse(404, "BlobNotFound")
			return
		}
		if g := r.Header.Get("x-ms-range"); g != "" {
			r.Header.Set("Range", g)
			if len(o.data) == 0 {
				w.Header().Set("Content-Range", "bytes */0")
				refuse(416, "InvalidRange")
				return
			}
		}
		sum := md5.Sum(o.data)
		w.Header().Set("ETag", fmt.Sprintf(`"0x%d"`, o.version))
		w.Header().Set("x-ms-creation-time", o.at.Format(http.TimeFormat))
		w.Header().Set("x-ms-blob-content-md5", base64.StdEncoding.EncodeToString(sum[:]))
		http.ServeContent(w, r, "", o.at, bytes.NewReader(o.data))
	}
}

// serveGS implements what gs uses of Google's protocols, for the bucket "box".
func serveGS(f *fake, w http.ResponseWriter, r *http.Request) {
	describe := func(n string, o object) map[string]any {
		return map[string]any{"kind": "storage#object", "name": n, "bucket": "box", "generation": fmt.Sprint(o.version),
			"size": fmt.Sprint(len(o.data)), "updated": o.at.Add(123 * time.Millisecond).Format(time.RFC3339Nano),
			"crc32c": sumOf(o.data)}
	}
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			f.t.Error(err)
		}
	}
	q := r.URL.Query()
	switch p := r.URL.Path; {
	case p == "/storage/v1/b/box/o":
		names, more := f.page(q.Get("prefix"), q.Get("pageToken"), 700)
		items := []any{}
		for _, n := range names {
			items = append(items, describe(n, f.objects[n]))
		}
		v := map[string]any{"kind": "storage#objects", "items": items}
		if more {
			v["nextPageToken"] = names[len(names)-1]
		}
		answer(v)
	case strings.HasPrefix(p, "/storage/v1/b/box/o/"):
		n := strings.TrimPrefix(p, "/storage/v1/b/box/o/")
		if o, ok := f.objects[n]; ok {
			answer(describe(n, o))
		} else {
			http.NotFound(w, r)
		}
	case p == "/upload/storage/v1/b/box/o" && q.Get("uploadType") == "multipart":
		_, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		m := multipart.NewReader(r.Body, params["boundary"])
		var name struct{ Name string }
		part, err := m.NextPart()
		if err != nil {
			return
		}
		_ = json.NewDecoder(part).Decode(&name)
		if part, err = m.NextPart(); err != nil {
			return
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return // cancelled
		}
		if _, there := f.objects[name.Name]; there && q.Get("ifGenerationMatch") == "0" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		f.set(name.Name, data)
		answer(describe(name.Name, f.objects[name.Name]))
	case p == "/upload/storage/v1/b/box/o" && q.Get("upload_id") == "":
		var name struct{ Name string }
		_ = json.NewDecoder(r.Body).Decode(&name)
		f.pending[name.Name] = nil
		w.Header().Set("Location", f.URL+p+"?uploadType=resumable&upload_id="+name.Name)
	case p == "/upload/storage/v1/b/box/o":
		n := q.Get("upload_id")
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		f.pending[n] = append(f.pending[n], data...)
		if strings.HasSuffix(r.Header.Get("Content-Range"), "/*") {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(f.pending[n])-1))
			w.Header().Set("X-Http-Status-Code-Override", "308") // the client asks for this header instead of the status 308
			return
		}
		f.set(n, f.pending[n])
		answer(describe(n, f.objects[n]))
	case strings.HasPrefix(p, "/box/"):
		o, ok := f.objects[strings.TrimPrefix(p, "/box/")]
		want := r.Header.Get("X-Goog-If-Generation-Match")
		if want == "" {
			want = q.Get("ifGenerationMatch")
		}
		switch {
		case !ok:
			http.NotFound(w, r)
			return
		case want != "" && want != fmt.Sprint(o.version):
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		w.Header().Set("X-Goog-Generation", fmt.Sprint(o.version))
		w.Header().Set("X-Goog-Hash", "crc32c="+sumOf(o.data))
		if len(o.data) == 0 && r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		http.ServeContent(w, r, "", o.at, bytes.NewReader(o.data))
	default:
		http.NotFound(w, r)
	}
}

func sumOf(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil,
		crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}
