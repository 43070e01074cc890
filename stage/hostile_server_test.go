//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/proctest"
	"leat/objstore"
)

// hostileServer is a web server whose answers are wrong in many ways: cut bodies, bodies and ranges
// that are too long or too short, other ranges than those asked for, no ranges, no sizes, missing
// headers, errors. It replaces objects at any time. All headers and bytes of an answer are of one
// version, as far as they are there.
type hostileServer struct {
	mu       sync.Mutex
	rand     *rand.Rand
	versions map[string]int
	calm     bool // answers are right
}

func hostileSize(name string, version int) int64 {
	r := rand.New(rand.NewPCG(seedOf(name, version), 1))
	switch r.IntN(4) {
	case 0:
		return 1 + r.Int64N(3)
	case 1:
		return 1 + r.Int64N(300*kib)
	}
	return 3*mib + 1 // most versions differ by their bytes alone
}

func (h *hostileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	name := r.URL.Path[1:]
	chance := func(n int) bool { return !h.calm && h.rand.IntN(n) == 0 }
	if chance(20) {
		h.versions[name]++
	}
	version := h.versions[name]
	noTag, noDate, noRange, noSize, refuse := chance(12), chance(12), chance(10), chance(10), chance(12)
	cut, long, short, shift, total, unsized := chance(10), chance(12), chance(12), chance(12), chance(12), chance(10)
	ignoreMatch, wrongLength, reset := chance(6), chance(15), chance(20)
	k := h.rand.Int64N(1000) + 1
	h.mu.Unlock()
	size := hostileSize(name, version)
	etag := fmt.Sprintf(`"%s-%d"`, name, version)
	if strings.HasPrefix(name, "time") { // has no tags
		noTag, noDate = true, false
	}
	modified := time.Unix(1e9+int64(version)*10, 0).UTC().Format(http.TimeFormat)
	matches := true
	if m := r.Header.Get("If-Match"); m != "" {
		matches = m == etag
	} else if m := r.Header.Get("If-Unmodified-Since"); m != "" {
		matches = m == modified
	}
	if ignoreMatch { // only the answer shows its version
		noTag, matches = strings.HasPrefix(name, "time"), true
	}
	head := map[string]string{"Date": time.Now().UTC().Format(http.TimeFormat)}
	if !noTag {
		head["ETag"] = etag
	}
	if !noDate {
		head["Last-Modified"] = modified
	}
	status, from, to := "200 OK", int64(0), size
	if !matches {
		status, from, to = "412 Precondition Failed", 0, 0
	} else if refuse {
		status, from, to = []string{"503 Service Unavailable", "500 Internal Server Error", "429 Too Many Requests"}[k%3], 0, 0
	} else if rng, is := strings.CutPrefix(r.Header.Get("Range"), "bytes="); is && !noRange {
		a, b, _ := strings.Cut(rng, "-")
		from, _ = strconv.ParseInt(a, 10, 64)
		if b != "" {
			last, _ := strconv.ParseInt(b, 10, 64)
			to = min(size, last+1)
		}
		if from >= size {
			status, from, to = "416 Range Not Satisfiable", 0, 0
			head["Content-Range"] = fmt.Sprintf("bytes */%d", size)
		} else {
			if short {
				to = max(from+1, to-k)
			}
			if long {
				to = min(size, to+k)
			}
			if shift {
				from = max(0, from-k%7)
			}
			of := strconv.FormatInt(size, 10)
			if unsized {
				of = "*"
			} else if total {
				of = strconv.FormatInt(size+k, 10) // its parts would be cut
			}
			status = "206 Partial Content"
			head["Content-Range"] = fmt.Sprintf("bytes %d-%d/%s", from, to-1, of)
		}
	}
	body := make([]byte, to-from)
	fill(body, seedOf(name, version), from)
	n := int64(len(body))
	if wrongLength && status != "200 OK" { // of a whole object it would be the only size
		n += k%5 - 2
	}
	chunked := noSize
	if !chunked {
		head["Content-Length"] = strconv.FormatInt(max(n, 0), 10)
	} else {
		head["Transfer-Encoding"] = "chunked"
	}
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if reset {
		return
	}
	fmt.Fprintf(out, "HTTP/1.1 %s\r\nConnection: close\r\n", status)
	for name, value := range head {
		fmt.Fprintf(out, "%s: %s\r\n", name, value)
	}
	out.WriteString("\r\n")
	if r.Method != "HEAD" {
		if cut && len(body) > 0 {
			body = body[:k%int64(len(body))]
		}
		if chunked {
			for at := 0; at < len(body); at += 100_000 {
				part := body[at:min(len(body), at+100_000)]
				fmt.Fprintf(out, "%x\r\n", len(part))
				out.Write(part)
				out.WriteString("\r\n")
			}
			if !cut {
				out.WriteString("0\r\n\r\n")
			}
		} else {
			out.Write(body)
			if long && !cut {
				out.WriteString("more than was announced")
			}
		}
	}
	out.Flush()
}

// wantVersion checks that bytes are those of one version that the server had at some time from
// first on.
func (h *hostileServer) wantVersion(t *testing.T, name string, b []byte, first int) {
	t.Helper()
	h.mu.Lock()
	last := h.versions[name]
	h.mu.Unlock()
	for v := first; v <= last; v++ {
		if int64(len(b)) == hostileSize(name, v) && bytes.Equal(b, content(name, v, int64(len(b)))) {
			return
		}
	}
	for v := range last + 1 {
		if int64(len(b)) == hostileSize(name, v) && bytes.Equal(b, content(name, v, int64(len(b)))) {
			t.Errorf("%s: version %d, expected one from %d to %d", name, v, first, last)
			return
		}
	}
	t.Errorf("%s: %d bytes that are no version", name, len(b))
}

func TestHostileServer(t *testing.T) {
	t.Parallel()
	rounds := proctest.Rounds(4, 15, 30)
	seed := uint64(time.Now().UnixNano())
	h := &hostileServer{rand: rand.New(rand.NewPCG(seed, 0)), versions: map[string]int{}}
	srv := httptest.NewServer(h)
	defer srv.Close()
	dir := inMemory(t)
	done, failed := 0, 0
	for round := range rounds {
		o := Options{RangeBytes: mib, Ranges: 3, MaxBytes: 24 * mib, Workers: 4,
			Retry: objstore.Retry{MinPause: time.Microsecond, MaxPause: time.Microsecond, MaxAttempts: 4}}
		if round%5 == 4 {
			o.MaxBytes = mib // most are read directly
		}
		p := ok(Open(context.Background(), dir, quick(o)))(t)
		b := ok(objstore.Open(t.Context(), srv.URL, nil))(t)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 12 {
			name := fmt.Sprintf("%s%d", []string{"tag", "time"}[i%2], i)
			wg.Go(func() {
				for range 4 {
					h.mu.Lock()
					first := h.versions[name]
					h.mu.Unlock()
					if p.Has(b, name) { // this pool may have staged it earlier
						first = 0
					}
					l := p.Prefetch(b, name)
					early(t, h, l, name)
					data, err := l.Bytes(within(t, time.Minute))
					mu.Lock()
					if done++; err != nil {
						failed++
					}
					mu.Unlock()
					if errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%s: not after a minute", name)
					}
					if err == nil {
						h.wantVersion(t, name, data, first)
					}
					l.Release()
				}
			})
		}
		wg.Wait()
		_ = b.Close()
		must(t, p.Close())
		// From now on the present version alone is right.
		h.mu.Lock()
		h.calm = true
		h.mu.Unlock()
		p = ok(Open(context.Background(), dir, quick(Options{MaxBytes: 24 * mib})))(t)
		b = ok(objstore.Open(t.Context(), srv.URL, nil))(t)
		for i := range 12 {
			name := fmt.Sprintf("%s%d", []string{"tag", "time"}[i%2], i)
			h.wantVersion(t, name, got(t, p, b, name), h.versions[name])
		}
		wantDisk(t, p)
		_ = b.Close()
		must(t, p.Close())
		h.mu.Lock()
		h.calm = false
		h.mu.Unlock()
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
	t.Logf("%d of %d reads failed, seed %d", failed, done, seed)
	if failed > done*3/4 {
		t.Errorf("%d of %d reads failed", failed, done)
	}
}

// early reads what has arrived of a copy in progress, of all versions that the server has had.
func early(t *testing.T, h *hostileServer, l *Ref, name string) {
	h.mu.Lock()
	v := h.versions[name]
	h.mu.Unlock()
	size := hostileSize(name, v)
	info := objstore.Info{Name: name, Size: size, ModTime: time.Unix(1e9+int64(v)*10, 0)}
	if !strings.HasPrefix(name, "time") {
		info.ETag = fmt.Sprintf("%s-%d", name, v)
	}
	for at := int64(0); at < size; at += 700 * kib {
		b, want := make([]byte, min(1000, size-at)), make([]byte, min(1000, size-at))
		ok, err := l.ReadUnfinished(within(t, time.Minute), info, b, at)
		if !ok || err != nil {
			return
		}
		if fill(want, seedOf(name, v), at); !bytes.Equal(b, want) {
			t.Errorf("%s: other bytes at %d of a copy in progress of version %d", name, at, v)
		}
	}
}
