//go:build linux

package stage

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/objstore"
)

// timedStore is a web server of one object, whose versions differ by Last-Modified alone.
type timedStore struct {
	*httptest.Server
	mu      sync.Mutex
	data    []byte
	date    time.Time           // of answers; zero: none is sent
	onRange func(s *timedStore) // called behind each answer to a range
	ranges  int
}

// timedAt is when the object changed last.
var timedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newTimedStore(t *testing.T, data []byte) *timedStore {
	s := &timedStore{data: data, date: timedAt}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.Header()["Date"] = nil; !s.date.IsZero() {
			w.Header().Set("Date", s.date.Format(http.TimeFormat))
		}
		http.ServeContent(w, r, "", timedAt, bytes.NewReader(s.data))
		if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			if s.ranges++; s.onRange != nil {
				s.onRange(s)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *timedStore) bucket(t *testing.T) *objstore.Bucket {
	b := ok(objstore.Open(t.Context(), s.URL, nil))(t)
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

func TestObjectReplacedWithinASecondIsNotTorn(t *testing.T) {
	t.Parallel()
	const size = 5*mib + 3
	s := newTimedStore(t, bytes.Repeat([]byte{1}, size))
	s.onRange = func(s *timedStore) { s.data = bytes.Repeat([]byte{2}, size) }
	p := pool(t, t.TempDir(), Options{RangeBytes: mib, Ranges: 3})
	if b := got(t, p, s.bucket(t), "a"); len(b) != size || bytes.Count(b, b[:1]) != size {
		t.Errorf("of %d bytes %d are 1 and %d are 2", len(b), bytes.Count(b, []byte{1}), bytes.Count(b, []byte{2}))
	}
}

func TestObjectReplacedWithinASecondIsNotStale(t *testing.T) {
	t.Parallel()
	for name, dates := range map[string][2]time.Time{
		"in the same second":         {timedAt, timedAt},
		"looked at much later":       {timedAt.Add(time.Second), timedAt.Add(time.Hour)},
		"a server without any clock": {},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := t.TempDir(), newTimedStore(t, []byte("old"))
			s.date = dates[0]
			if b := got(t, pool(t, dir, Options{}), s.bucket(t), "a"); string(b) != "old" {
				t.Errorf("%q", b)
			}
			s.data, s.date = []byte("new"), dates[1]
			if b := got(t, pool(t, dir, Options{}), s.bucket(t), "a"); string(b) != "new" {
				t.Errorf("a later pool serves %q", b)
			}
		})
	}
}

func TestTimeTwoSecondsAgoIsAVersion(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newTimedStore(t, make([]byte, 3*mib))
	s.date = timedAt.Add(2 * time.Second)
	for range 2 {
		got(t, pool(t, dir, Options{RangeBytes: mib}), s.bucket(t), "a")
	}
	if s.ranges != 3 {
		t.Errorf("%d ranges were read", s.ranges)
	}
}

func TestDamagedUnversionedCopy(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newTimedStore(t, bytes.Repeat([]byte{1}, 2*mib))
	p := pool(t, dir, Options{})
	l := p.Prefetch(s.bucket(t), "a")
	defer l.Release()
	r := ok(l.Open(t.Context()))(t)
	defer r.Close()
	must(t, os.Truncate(ok(r.Path())(t), mib))
	s.mu.Lock()
	s.data, s.date = bytes.Repeat([]byte{2}, 2*mib), timedAt.Add(time.Hour)
	s.mu.Unlock()
	b := make([]byte, 2*mib)
	if n, err := r.ReadAt(b, 0); err == nil || bytes.Count(b[:n], []byte{1}) != n {
		t.Errorf("%d bytes, %d of the new version, %v", n, bytes.Count(b[:n], []byte{2}), err)
	}
}

func TestUnversionedDirectRead(t *testing.T) {
	t.Parallel()
	const size = directMemory + 5
	s := newTimedStore(t, bytes.Repeat([]byte{1}, size))
	p := pool(t, t.TempDir(), Options{MaxBytes: mib})
	l := p.Prefetch(s.bucket(t), "a")
	defer l.Release()
	r := ok(l.Open(t.Context()))(t)
	defer r.Close()
	_, err := r.ReadAt(make([]byte, 10), 5)
	wantErr(t, err, ErrUnversioned)
	if b := ok(l.Bytes(t.Context()))(t); len(b) != size || bytes.Count(b, []byte{1}) != size {
		t.Errorf("%d bytes", len(b))
	}
}

// TestUnversionedDirectReadRestarts reads from a server that breaks off the first bodies.
func TestUnversionedDirectReadRestarts(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"in memory": 3 * mib, "in pieces": directMemory + 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && size > directMemory {
				t.Skip("-short: 64 MiB, ten times")
			}
			var cut atomic.Int64
			data := bytes.Repeat([]byte{1, 2, 3, 4, 5}, size/5+1)[:size]
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(size))
				if n := size - mib/2; r.Method == http.MethodGet && cut.Add(-1) >= 0 {
					_, _ = w.Write(data[:n])
					panic(http.ErrAbortHandler)
				}
				_, _ = w.Write(data)
			}))
			defer s.Close()
			src := ok(objstore.Open(t.Context(), s.URL, nil))(t)
			defer src.Close()
			p := pool(t, t.TempDir(), Options{MaxBytes: mib})
			l := p.Prefetch(src, "a")
			defer l.Release()
			_ = ok(l.Open(t.Context()))(t).Close() // the request for a large one's size is not cut
			cut.Store(2)
			if b, err := l.Bytes(t.Context()); err != nil || !bytes.Equal(b, data) {
				t.Errorf("Bytes: %d bytes, %v", len(b), err)
			}
			cut.Store(2)
			if b, err := l.Append(t.Context(), []byte("x")); err != nil || !bytes.Equal(b[1:], data) {
				t.Errorf("Append: %d bytes, %v", len(b), err)
			}
			if b, _, err := p.ReadDirect(t.Context(), src, "a"); err != nil || !bytes.Equal(b, data) {
				t.Errorf("Get: %d bytes, %v", len(b), err)
			}
			if n := p.Counters().Retries; n < 2 {
				t.Errorf("%d retries", n)
			}
		})
	}
}

func TestFileReplacedWithSameSizeAndTime(t *testing.T) {
	t.Parallel()
	dir, directory := t.TempDir(), t.TempDir()
	put := func(data string) {
		next := filepath.Join(directory, "next")
		must(t, os.WriteFile(next, []byte(data), 0o600))
		must(t, os.Chtimes(next, timedAt, timedAt)) // as rsync -t does
		must(t, os.Rename(next, filepath.Join(directory, "a")))
	}
	src := ok(objstore.Open(t.Context(), directory, nil))(t)
	defer src.Close()
	for _, data := range []string{"old", "new"} {
		put(data)
		if b := got(t, pool(t, dir, Options{}), src, "a"); string(b) != data {
			t.Errorf("%q, expected %q", b, data)
		}
	}
}

func TestHEAD404KeepsCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var gets atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			http.NotFound(w, r)
			return
		}
		if r.Header.Get("Range") != "bytes=0-0" {
			gets.Add(1)
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte("content")))
	}))
	defer s.Close()
	src := ok(objstore.Open(t.Context(), s.URL, nil))(t)
	defer src.Close()
	for range 3 {
		if b := got(t, pool(t, dir, Options{}), src, "a"); string(b) != "content" {
			t.Errorf("%q", b)
		}
	}
	if n := gets.Load(); n != 1 {
		t.Errorf("it was copied %d times", n)
	}
}
