//go:build linux

package stage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"leat/internal/fault"
)

// TestReaderCloseDuringReadAt closes Readers while others read by them, and frees what is not in
// use. Each read returns the object's bytes or os.ErrClosed.
func TestReaderCloseDuringReadAt(t *testing.T) {
	for _, size := range []int64{200 * kib, 2 * mib} {
		for _, trim := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d trim %v", size, trim), func(t *testing.T) {
				s := small("close", size)
				p := pool(t, t.TempDir(), Options{})
				want := content("a", 0, size)
				got(t, p, s, "a")
				rounds := 60
				if testing.Short() {
					rounds = 15
				}
				closed := 0
				for range rounds {
					l := p.Prefetch(s, "a")
					r := ok(l.Open(t.Context()))(t)
					l.Release()
					var wg sync.WaitGroup
					var mu sync.Mutex
					started := make(chan struct{})
					begin := sync.OnceFunc(func() { close(started) })
					for k := range 4 {
						wg.Go(func() {
							b := make([]byte, size)
							for {
								n, err := r.ReadAt(b, 0)
								if k == 0 {
									begin()
								}
								switch {
								case err == nil && int64(n) == size && bytes.Equal(b, want):
									continue
								case errors.Is(err, os.ErrClosed) && errors.Is(err, ErrClosed):
									mu.Lock()
									closed++
									mu.Unlock()
								default:
									t.Errorf("%d bytes, as expected: %v, %v", n, bytes.Equal(b, want), err)
								}
								return
							}
						})
					}
					<-started
					must(t, r.Close())
					if trim {
						_ = ok(p.Trim(t.Context(), 0))(t)
					}
					wg.Wait()
					if t.Failed() {
						break
					}
				}
				reads, _, _ := s.count("a")
				if n := p.Counters(); n.Damaged != 0 || !trim && (reads != 1 || !p.Has(s, "a")) {
					t.Errorf("%d reads of the source, %+v", reads, n)
				}
				if closed != 4*rounds {
					t.Errorf("%d reads ended with an error, expected %d", closed, 4*rounds)
				}
				_ = ok(p.Trim(t.Context(), 0))(t)
				if u := wantDisk(t, p); u.Bytes != 0 {
					t.Errorf("%d bytes are still in use", u.Bytes)
				}
			})
		}
	}
}

// TestReaderCloseEndsAfterReadAt closes a Reader at the moment at which a read has begun.
func TestReaderCloseEndsAfterReadAt(t *testing.T) {
	for _, size := range []int64{200 * kib, 2 * mib} {
		s := small("close", size)
		p := pool(t, t.TempDir(), Options{})
		l := p.Prefetch(s, "a")
		r := ok(l.Open(t.Context()))(t)
		l.Release()
		fault.Set(func(point string) error {
			if point == "stage.reading" {
				fault.Set(nil)
				must(t, r.Close())
				_ = ok(p.Trim(t.Context(), 0))(t)
			}
			return nil
		})
		b := make([]byte, size)
		n, err := r.ReadAt(b, 0)
		fault.Set(nil)
		if !(err == nil && bytes.Equal(b, content("a", 0, size)) || errors.Is(err, os.ErrClosed)) {
			t.Errorf("%d bytes, as expected: %v, %v", n, bytes.Equal(b, content("a", 0, size)), err)
		}
		if n := p.Counters(); n.Damaged != 0 {
			t.Errorf("%+v", n)
		}
		_ = ok(p.Trim(t.Context(), 0))(t)
		if u := wantDisk(t, p); u.Bytes != 0 {
			t.Errorf("%d bytes are still in use", u.Bytes)
		}
	}
}

// TestReaderAndPrefetchOfAnotherSource reads while Prefetch replaces the source of later requests.
func TestReaderAndPrefetchOfAnotherSource(t *testing.T) {
	const size = directMemory + mib
	s := small("sources", 100).put("a", object{size: size})
	p := pool(t, t.TempDir(), Options{MaxBytes: mib})
	l := p.Prefetch(s, "a")
	defer l.Release()
	r := ok(l.Open(t.Context()))(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 100 {
			b, want := make([]byte, 1000), make([]byte, 1000)
			if _, err := r.ReadAt(b, int64(i)); err != nil {
				t.Error(err)
			}
			if fill(want, seedOf("a", 0), int64(i)); !bytes.Equal(b, want) {
				t.Errorf("other bytes at %d", i)
			}
			_ = l.Info()
		}
	})
	for range 100 {
		p.Prefetch(s, "a").Release()
		must(t, p.Wait(t.Context()))
	}
	wg.Wait()
	must(t, r.Close())
}

// TestPathWhileReaderCloses asks for files while the Reader whose bytes are copied is closed.
func TestPathWhileReaderCloses(t *testing.T) {
	const size = 200 * kib
	s := small("path", size)
	for range 20 {
		p := ok(Open(t.Context(), t.TempDir(), quick(Options{})))(t)
		l := p.Prefetch(s, "a")
		first, second := ok(l.Open(t.Context()))(t), ok(l.Open(t.Context()))(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := first.Path(); err != nil {
				wantErr(t, err, os.ErrClosed)
			}
		})
		wg.Go(func() { must(t, first.Close()) })
		wg.Go(func() {
			path, err := second.Path()
			if err != nil {
				t.Error(err)
			} else if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, content("a", 0, size)) {
				t.Errorf("%d bytes: %v", len(b), err)
			}
		})
		wg.Wait()
		must(t, second.Close())
		l.Release()
		_ = ok(p.Trim(t.Context(), 0))(t)
		wantDisk(t, p)
		must(t, p.Close())
	}
}
