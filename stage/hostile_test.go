//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/objstore"
)

func TestTruncatedBodyOfUnknownSize(t *testing.T) {
	whole := content("x", 0, 300000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "HEAD" {
			return
		}
		w.Header().Set("ETag", `"one"`)
		w.Write(whole[:100000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	b := ok(objstore.Open(t.Context(), srv.URL, nil))(t)
	defer b.Close()
	p := pool(t, inMemory(t), Options{})
	l := p.Prefetch(b, "x")
	defer l.Release()
	err := l.WaitStaged(within(t, time.Minute))
	got, err2 := l.Bytes(within(t, time.Minute))
	if err == nil || err2 == nil {
		t.Errorf("%d of %d bytes are served, %v, %v", len(got), len(whole), err, err2)
	}
}

func TestIndexTruncatedDuringCopy(t *testing.T) {
	dir := inMemory(t)
	s := newSource("b")
	middle := make(chan struct{})
	s.put("a", object{size: 400 * kib, unknown: true, middle: middle})
	p := ok(Open(context.Background(), dir, quick(Options{})))(t)
	l := p.Prefetch(s, "a")
	soon(t, "half", func() bool { _, _, n := s.count("a"); return n >= 200*kib })
	must(t, os.Truncate(filepath.Join(dir, "stage", "index"), 0))
	close(middle)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, _ = l.Bytes(ctx)
	done := make(chan error)
	go func() { done <- p.Close() }()
	select {
	case <-done: // with the index's error
	case <-time.After(time.Minute):
		t.Fatalf("Close hangs\n%s", goroutines())
	}
}

// cancelled is a source whose own work was cancelled.
type cancelled struct {
	*source
	n atomic.Int64
}

func (c *cancelled) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	c.n.Add(1)
	return objstore.Info{}, nil, fmt.Errorf("the job is over: %w", context.Canceled)
}

func TestSourceReturnsCanceled(t *testing.T) {
	dir := inMemory(t)
	synctest.Test(t, func(t *testing.T) {
		p := ok(Open(context.Background(), dir, quick(Options{})))(t)
		defer p.Close()
		s := &cancelled{source: small("c", 1000)}
		l := p.Prefetch(s, "a")
		defer l.Release()
		time.Sleep(time.Second)
		if _, err := l.Bytes(within(t, time.Second)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if s.n.Load() > 100 {
			t.Errorf("%d requests", s.n.Load())
		}
	})
}

// repeated encodes a byte as 8 MiB of it.
type repeated struct{}

func (repeated) Encode(v byte) ([]byte, error) { return bytes.Repeat([]byte{v}, 8*mib), nil }

func (repeated) Decode(b []byte) (byte, error) {
	seen := map[byte]int{}
	for _, x := range b {
		seen[x]++
	}
	if len(seen) != 1 {
		return 0, fmt.Errorf("mixed of %d encodings: %v", len(seen), seen)
	}
	return b[0], nil
}

func TestLargeEncodedValue(t *testing.T) {
	p := pool(t, inMemory(t), Options{RangeBytes: mib})
	s := small("d", 1000)
	var decodes atomic.Int64
	decode := func([]byte) (byte, error) { return byte(decodes.Add(1)), nil }
	l := ok(TypedOnce(p, "big", decode, repeated{}))(t).Prefetch(s, "a")
	defer l.Release()
	_, _, err := l.Get(t.Context())
	if n, _, _ := s.count("a"); n != 1 || decodes.Load() != 1 || err != nil {
		t.Errorf("%d reads, %d decodings, %v", n, decodes.Load(), err)
	}
}

func TestTwoPowerLosses(t *testing.T) {
	dir := inMemory(t)
	s := small("e", 10*kib)
	index := filepath.Join(dir, "stage", "index")
	p := ok(Open(context.Background(), dir, quick(Options{MaxAge: -1})))(t)
	got(t, p, s, "other") // boot 1
	must(t, p.Close())
	page := ok(os.ReadFile(index))(t)[:4096] // of boot 1
	anotherBoot(t, dir)
	p = ok(Open(context.Background(), dir, quick(Options{MaxAge: -1})))(t) // boot 2: epoch 2
	got(t, p, s, "a")
	must(t, p.Close())
	// power goes: header is that of boot 1 (except that it knows of places and records, which are
	// as they were a moment later)
	now := ok(os.ReadFile(index))(t)[:4096]
	copy(now[24:44], page[24:44])
	f := ok(os.OpenFile(index, os.O_RDWR, 0))(t)
	_ = ok(f.WriteAt(now, 0))(t)
	must(t, f.Close())
	anotherBoot(t, dir) // boot 3
	// the data of a were never flushed: zeros
	segs := ok(filepath.Glob(filepath.Join(dir, "stage", "segments", "0*")))(t)
	for _, seg := range segs {
		f := ok(os.OpenFile(seg, os.O_RDWR, 0))(t)
		_ = ok(f.WriteAt(make([]byte, 64*kib), 0))(t)
		must(t, f.Close())
	}
	p = ok(Open(context.Background(), dir, quick(Options{MaxAge: -1})))(t)
	defer p.Close()
	b := got(t, p, s, "a")
	if !bytes.Equal(b, content("a", 0, 10*kib)) {
		t.Errorf("other bytes are served: %+v", p.Counters())
	}
}

func TestReadOnlyDisk(t *testing.T) {
	for _, e := range []error{unix.EIO, unix.EFBIG, unix.EROFS, unix.EMFILE} {
		p := pool(t, inMemory(t), Options{})
		s := small("h", 1000)
		fault.Set(func(point string) error {
			if point == "stage.write" {
				return e
			}
			return nil
		})
		l := p.Prefetch(s, "a")
		_, err := l.Bytes(within(t, time.Minute))
		fault.Set(nil)
		if err != nil {
			t.Errorf("%v: %v", e, err)
		}
		l.Release()
	}
}

func TestUnversionedObjectIsNotMixed(t *testing.T) {
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := byte(1)
		if r.Method == "GET" && n.Add(1) > 1 {
			v = 2
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(bytes.Repeat([]byte{v}, 3*mib)))
	}))
	defer srv.Close()
	b := ok(objstore.Open(t.Context(), srv.URL, nil))(t)
	defer b.Close()
	p := pool(t, inMemory(t), Options{RangeBytes: mib})
	x := got(t, p, b, "x")
	if x[0] != x[len(x)-1] {
		t.Errorf("it begins with version %d and ends with %d", x[0], x[len(x)-1])
	}
}

func TestLatestSourceIsUsed(t *testing.T) {
	p := pool(t, inMemory(t), Options{})
	bad := newSource("j").put("a", object{size: 1000, fails: -1, err: errFinal})
	l := p.Prefetch(bad, "a")
	defer l.Release()
	become(t, l, failed)
	good := newSource("j").put("a", object{size: 1000})
	m := p.Prefetch(good, "a")
	defer m.Release()
	_, err := m.Bytes(within(t, time.Minute))
	if err != nil {
		t.Error(err)
	}
}

func TestCheckedInFuture(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Second, 59 * time.Second, 24 * time.Hour} {
		dir := inMemory(t)
		s := newSource("n").put("a", object{size: 1000})
		p := ok(Open(context.Background(), dir, quick(Options{})))(t)
		l := p.Prefetch(s, "a")
		r := ok(l.Open(t.Context()))(t)
		r.e.SetChecked(time.Now().Add(ahead)) // as a machine would whose clock was ahead
		must(t, r.Close())
		must(t, p.Close())
		s.put("a", object{size: 1000, version: 1})
		p = pool(t, dir, Options{})
		if bytes.Equal(got(t, p, s, "a"), content("a", 0, 1000)) {
			t.Errorf("%v: a version that was replaced before the pool was opened is served", ahead)
		}
	}
}

func TestMemoryOfUnknownSize(t *testing.T) {
	s := newSource("p").put("a", object{size: 70 * mib, unknown: true})
	p := pool(t, inMemory(t), Options{MaxBytes: mib})
	l := p.Prefetch(s, "a")
	defer l.Release()
	r := ok(l.Open(within(t, time.Minute)))(t)
	defer r.Close()
	if len(r.direct.bytes) > directMemory {
		t.Error("an object of unknown size is read into memory without bound")
	}
}

// isClosing reports whether Close waits for the calls that run.
func isClosing(p *Pool) bool {
	if p.gate.TryRLock() {
		p.gate.RUnlock()
		return false
	}
	return true
}

// nested is a source whose objects are pieces of another, which it reads by the same pool.
type nested struct {
	*source
	p       *Pool
	inner   *Reader
	started chan struct{}
}

func (n *nested) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	close(n.started)
	for !isClosing(n.p) {
		time.Sleep(time.Millisecond)
	}
	b := make([]byte, 10)
	_, err := n.inner.ReadAt(b, 0)
	return objstore.Info{Size: 10}, io.NopCloser(bytes.NewReader(b)), err
}

func TestSourceUsesPoolDuringClose(t *testing.T) {
	s := small("o", 1000)
	p := ok(Open(context.Background(), inMemory(t), quick(Options{})))(t)
	l := p.Prefetch(s, "inner")
	r := ok(l.Open(t.Context()))(t)
	n := &nested{s, p, r, make(chan struct{})}
	go func() { _, _, _ = p.ReadDirect(context.Background(), n, "outer") }()
	<-n.started
	done := make(chan error, 1)
	go func() { done <- p.Close() }()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("Close and Get hang")
	}
}

func TestOnRetryUsesPoolDuringClose(t *testing.T) {
	s := newSource("r").put("a", object{size: 1000, fails: -1})
	var p *Pool
	started := make(chan struct{}, 100)
	p = ok(Open(context.Background(), inMemory(t), &Options{MinFree: -1, Retry: objstore.Retry{OnRetry: func(error) {
		started <- struct{}{}
		for !isClosing(p) {
			time.Sleep(time.Millisecond)
		}
		p.Counters()
	}}}))(t)
	go func() { _, _, _ = p.ReadDirect(context.Background(), s, "a") }()
	<-started
	done := make(chan error, 1)
	go func() { done <- p.Close() }()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("Close hangs")
	}
}
