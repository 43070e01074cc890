package objstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"leat/objstore"
)

// quick returns a Retry with short pauses, which counts its retries.
func quick(retries *atomic.Int64) objstore.Retry {
	return objstore.Retry{MinPause: time.Millisecond, StallTimeout: time.Minute,
		OnRetry: func(error) { retries.Add(1) }}
}

func readAll(ctx context.Context, r objstore.Retry, src objstore.Source, name string, offset, length int64) ([]byte,
	error) {
	_, body, err := r.Read(ctx, src, name, offset, length, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func TestBrokenBodyIsResumed(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	s.put("o", data)
	var n atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"v"`)
		if n.Add(1)%2 == 1 { // cut every second response short
			cut(w, r, time.Time{}, data, 40_000)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return true
	}
	var retries atomic.Int64
	for _, r := range [][2]int64{{0, -1}, {100, 100_000}, {159_000, -1}} {
		got, err := readAll(t.Context(), quick(&retries), open(t, s.URL, nil), "o", r[0], r[1])
		end := int64(len(data))
		if r[1] >= 0 {
			end = r[0] + r[1]
		}
		if !bytes.Equal(got, data[r[0]:end]) || err != nil {
			t.Errorf("%v: %d bytes, %v", r, len(got), err)
		}
	}
	if retries.Load() == 0 {
		t.Error("nothing broke off")
	}
	for _, r := range s.requests[1:2] {
		if r.Header.Get("If-Match") != `"v"` || r.Header.Get("Range") == "" {
			t.Errorf("resumed by %v", r.Header)
		}
	}
}

// cut sends the beginning of a response and closes the connection.
func cut(w http.ResponseWriter, r *http.Request, at time.Time, data []byte, n int) {
	http.ServeContent(&cutting{w, n}, r, "", at, bytes.NewReader(data))
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// cutting is a response that ends after some bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b[:min(len(b), c.left)])
	c.left -= n
	if err == nil && n < len(b) {
		err = io.ErrClosedPipe
	}
	return n, err
}

func TestReplacedDuringReadIsErrChanged(t *testing.T) {
	s := serve(t)
	for name, tags := range map[string]bool{"with entity tags": true, "with times alone": false} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				at := time.Date(2020, 1, 1, 0, 0, int(n.Add(1)), 0, time.UTC)
				if tags {
					w.Header().Set("ETag", `"`+at.String()+`"`)
				}
				cut(w, r, at, make([]byte, 5000), 1000)
				return true
			}
			var retries atomic.Int64
			got, err := readAll(t.Context(), quick(&retries), open(t, s.URL, nil), "o", 0, -1)
			if !errors.Is(err, objstore.ErrChanged) || len(got) > 1000 || n.Load() != 2 {
				t.Errorf("%d bytes, %v, %d requests", len(got), err, n.Load())
			}
		})
	}
}

// patiently repeats try with growing stall times until it succeeds: on a machine that pauses for as
// long as the stall time, a store that works seems to stall.
func patiently(t *testing.T, stall time.Duration, try func(stall time.Duration) error) {
	t.Helper()
	err := try(stall)
	for ; err != nil && stall < 10*time.Second; err = try(stall) {
		stall *= 4
	}
	if err != nil {
		t.Error(err)
	}
}

func TestStallIsRetried(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("x"), 100_000)
	var n atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"v"`)
		switch n.Add(1) {
		case 1: // no response
			<-r.Context().Done()
			return true
		case 2: // a part of the body, then nothing
			w.Header().Set("Content-Length", "100000")
			w.WriteHeader(200)
			_, _ = w.Write(data[:5000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return true
	}
	patiently(t, 100*time.Millisecond, func(stall time.Duration) error {
		n.Store(0)
		got, err := readAll(t.Context(), objstore.Retry{MinPause: time.Millisecond, StallTimeout: stall}, open(t, s.URL, nil), "o",
			0, -1)
		if !bytes.Equal(got, data) || err != nil || n.Load() != 3 {
			return fmt.Errorf("%d bytes, %v, %d requests", len(got), err, n.Load())
		}
		return nil
	})
}

func TestSkippedBytesAreProgress(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	var n, pause atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"v"`)
		w.WriteHeader(200)
		first := n.Add(1) == 1
		for i := 0; i < len(data); i += 64 << 10 {
			if first && i == len(data)*3/4 {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(data[i : i+64<<10])
			w.(http.Flusher).Flush()
			if !first {
				time.Sleep(time.Duration(pause.Load()))
			}
		}
		return true
	}
	patiently(t, 300*time.Millisecond, func(stall time.Duration) error {
		n.Store(0)
		pause.Store(int64(stall / 10)) // for 16 times
		got, err := readAll(t.Context(), objstore.Retry{MinPause: time.Millisecond, StallTimeout: stall}, open(t, s.URL, nil), "o",
			0, -1)
		if !bytes.Equal(got, data) || err != nil || n.Load() != 2 {
			return fmt.Errorf("%d bytes, %v, %d requests", len(got), err, n.Load())
		}
		return nil
	})
}

func TestSlowStoreIsNotAStall(t *testing.T) {
	s := serve(t)
	var pause atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "20")
		for range 20 {
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			time.Sleep(time.Duration(pause.Load()))
		}
		return true
	}
	patiently(t, 200*time.Millisecond, func(stall time.Duration) error {
		pause.Store(int64(stall / 10))
		if got, err := readAll(t.Context(), objstore.Retry{MaxAttempts: 1, StallTimeout: stall}, open(t, s.URL, nil), "o", 0,
			-1); len(got) != 20 || err != nil {
			return fmt.Errorf("%d bytes, %w", len(got), err)
		}
		return nil
	})
}

func TestSlowReaderIsNotAStall(t *testing.T) {
	s := serve(t)
	s.put("o", make([]byte, 1<<20))
	patiently(t, 50*time.Millisecond, func(stall time.Duration) error {
		r := objstore.Retry{MaxAttempts: 1, StallTimeout: stall}
		_, body, err := r.Read(t.Context(), open(t, s.URL, nil), "o", 0, -1, nil)
		if err != nil {
			return err
		}
		defer body.Close()
		time.Sleep(3 * stall)
		if n, err := io.Copy(io.Discard, body); n != 1<<20 || err != nil {
			return fmt.Errorf("%d bytes, %w", n, err)
		}
		return nil
	})
}

func TestTemporaryErrors(t *testing.T) {
	s := serve(t)
	b := open(t, s.URL, nil)
	for status, again := range map[int]bool{408: true, 425: true, 429: true, 500: true, 502: true, 503: true, 504: true,
		400: false, 401: false, 403: false, 404: false, 410: false, 412: false, 501: false} {
		var n, retries atomic.Int64
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			n.Add(1)
			w.WriteHeader(status)
			return true
		}
		r := quick(&retries)
		r.MaxAttempts = 3
		_, err := readAll(t.Context(), r, b, "o", 0, -1)
		if want := int64(map[bool]int{true: 3, false: 1}[again]); err == nil || n.Load() != want ||
			retries.Load() != want-1 {
			t.Errorf("%d: %d requests, %v", status, n.Load(), err)
		}
	}
}

func TestRetryAfterHeader(t *testing.T) {
	s := serve(t)
	b := open(t, s.URL, nil)
	for _, header := range []string{"100", time.Now().Add(100 * time.Second).UTC().Format(http.TimeFormat)} {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(503)
			return true
		}
		_, err := readAll(t.Context(), objstore.Retry{MaxAttempts: 1}, b, "o", 0, -1)
		var e *objstore.Error
		if !errors.As(err, &e) || e.RetryAfter <= 0 || e.RetryAfter > 100*time.Second {
			t.Errorf("%s: %v", header, err)
		}
	}
}

func TestContextEndsPause(t *testing.T) {
	s := serve(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(503)
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := readAll(ctx, objstore.Retry{Timeout: 2 * time.Hour}, open(t, s.URL, nil), "o", 0, -1); !errors.Is(err,
		context.DeadlineExceeded) || time.Since(start) > time.Minute {
		t.Error(err, time.Since(start))
	}
}

func TestProgressResetsAttempts(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("0123456789"), 1000)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"v"`)
		cut(w, r, time.Time{}, data, 500)
		return true
	}
	var retries atomic.Int64
	r := quick(&retries)
	r.MaxAttempts = 2
	got, err := readAll(t.Context(), r, open(t, s.URL, nil), "o", 0, -1)
	if !bytes.Equal(got, data) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// closedPort returns the address of a port that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUnversionedBodyIsNotResumed(t *testing.T) {
	s := serve(t)
	data := bytes.Repeat([]byte("0123456789"), 1000)
	var n atomic.Int64
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		n.Add(1)
		cut(w, r, time.Time{}, data, 500)
		return true
	}
	var retries atomic.Int64
	if got, err := readAll(t.Context(), quick(&retries), open(t, s.URL, nil), "o", 0, -1); err == nil || n.Load() != 1 {
		t.Errorf("%d bytes, %v, %d requests", len(got), err, n.Load())
	}
}

func TestConnectionRefusedError(t *testing.T) {
	var retries atomic.Int64
	_, err := readAll(t.Context(), quick(&retries), open(t, "http://"+closedPort(t), nil), "o", 0, -1)
	if !errors.Is(err, syscall.ECONNREFUSED) || retries.Load() != 4 {
		t.Error(err, retries.Load())
	}
	if _, err := readAll(t.Context(), quick(&retries), open(t, "http://no.such.host.invalid", nil), "o", 0,
		-1); !errors.As(err, new(*net.DNSError)) {
		t.Error(err)
	}
}
