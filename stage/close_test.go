//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestReleaseWhileQueued(t *testing.T) {
	t.Parallel()
	s := small("never", 1000)
	gate := make(chan struct{})
	s.put("first", object{size: 1000, gate: gate})
	p := pool(t, t.TempDir(), Options{Workers: 1})
	first := p.Prefetch(s, "first")
	become(t, first, running)
	for i := range 100 {
		p.Prefetch(s, fmt.Sprint(i)).Release()
	}
	wanted := p.Prefetch(s, "7") // again, after it was released
	close(gate)
	wantBytes(t, wanted, s, 0)
	must(t, p.Wait(t.Context()))
	if reads, _, _ := s.all(); reads != 2 {
		t.Errorf("%d requests for the 2 objects that are wanted", reads)
	}
	if p.mu.Lock(); len(p.items) != 2 {
		t.Errorf("%d objects are remembered", len(p.items))
	}
	p.mu.Unlock()
}

func TestDropCancelsCopy(t *testing.T) {
	t.Parallel()
	s := small("cancel", 1000)
	s.put("a", object{size: 1000, middle: make(chan struct{})})
	p := pool(t, t.TempDir(), Options{Keep: Drop})
	l := p.Prefetch(s, "a")
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n == 500 })
	l.Release()
	must(t, p.Wait(within(t, time.Minute))) // though its source gives nothing more
	if u := wantDisk(t, p); u.Bytes != 0 {
		t.Errorf("%d bytes are taken", u.Bytes)
	}
	// Wanted again while the cancelled copy ends: it is copied after all.
	for range 100 {
		s.put("b", object{size: 1000, middle: make(chan struct{})})
		l := p.Prefetch(s, "b")
		become(t, l, running)
		l.Release()
		s.edit("b", func(o *object) { o.middle = nil })
		l = p.Prefetch(s, "b")
		wantBytes(t, l, s, 0)
		l.Release()
	}
}

func TestOpenDuringDirectRead(t *testing.T) {
	t.Parallel()
	s := small("again", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	wantBytes(t, p.Prefetch(s, "a"), s, 0)
	a := p.Prefetch(s, "a")
	defer a.Release()
	for range 100 {
		s.put("b", object{size: 64 * kib, middle: make(chan struct{})})
		b := p.Prefetch(s, "b")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := b.Open(ctx); done <- err }()
		become(t, b, directRead)
		cancel()
		wantErr(t, <-done, context.Canceled)
		s.edit("b", func(o *object) { o.middle = nil })
		b.Release() // the last one: the read is cancelled
		b = p.Prefetch(s, "b")
		wantBytes(t, b, s, 0)
		b.Release()
	}
}

func TestLostRefIsReleased(t *testing.T) {
	t.Parallel()
	s := small("forgotten", 64*kib)
	s.put("b", object{size: 192 * kib})
	p := pool(t, t.TempDir(), Options{MaxBytes: 192 * kib})
	func() {
		l := p.Prefetch(s, "a")
		r := ok(l.Open(t.Context()))(t)
		_ = ok(r.ReadAt(make([]byte, 10), 0))(t)
		l = p.Prefetch(s, "c")
		r = ok(l.Open(t.Context()))(t)
		_ = ok(r.Path())(t)
	}()
	b := p.Prefetch(s, "b")
	defer b.Release()
	soon(t, "the forgotten ones giving their space back", func() bool { runtime.GC(); return stateOf(b) == staged })
}

func TestRefInUseIsKept(t *testing.T) {
	t.Parallel()
	s := small("in use", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	r := ok(p.Prefetch(s, "a").Open(t.Context()))(t)
	path := ""
	for i := range 3 {
		runtime.GC()
		p.Prefetch(s, "b").Release()
		if i == 1 {
			_, err := r.Path() // no space for another copy
			wantErr(t, err, ErrNoSpace)
		}
	}
	_ = path
	b := make([]byte, 64*kib)
	_ = ok(r.ReadAt(b, 0))(t)
	if !bytes.Equal(b, content("a", 0, 64*kib)) {
		t.Error("other bytes")
	}
	if reads, _, _ := s.count("a"); reads != 1 {
		t.Errorf("%d requests", reads)
	}
	must(t, r.Close())
}

func TestErrClosedAfterClose(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{LRU, Drop} {
		watchdog(t, 5*time.Minute)
		s := small("closed", 64*kib)
		s.put("never", object{size: 1000, gate: make(chan struct{})})
		p := ok(Open(context.Background(), t.TempDir(), quick(Options{Workers: 1, Keep: keep, MaxBytes: 128 * kib})))(t)
		a, f := p.Prefetch(s, "a"), p.Prefetch(s, "f")
		wantBytes(t, a, s, 0)
		wantBytes(t, f, s, 0)
		r := ok(a.Open(t.Context()))(t)
		ra := ok(f.Open(t.Context()))(t)
		never := p.Prefetch(s, "never")
		waits := p.Prefetch(s, "waits")
		errs := make(chan error)
		for _, l := range []*Ref{never, waits} {
			go func() { _, err := l.Open(context.Background()); errs <- err }()
		}
		go func() { _, _, err := p.ReadDirect(context.Background(), s, "never"); errs <- err }()
		soon(t, "all waiting", func() bool { reads, stats, _ := s.count("never"); return reads+stats >= 2 })
		begin := time.Now()
		must(t, p.Close())
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("Close took %v", d)
		}
		for range 3 {
			if err := <-errs; err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("who waited got %v", err)
			}
		}
		must(t, p.Close())
		for _, l := range []*Ref{a, never, waits, p.Prefetch(s, "new"), p.Put([]byte("x"), "x")} {
			_, err := l.Open(t.Context())
			wantErr(t, err, ErrClosed)
			_, err = l.Bytes(t.Context())
			wantErr(t, err, ErrClosed)
		}
		_, err := r.ReadAt(make([]byte, 10), 0)
		wantErr(t, err, ErrClosed)
		_, err = r.Read(make([]byte, 10))
		wantErr(t, err, ErrClosed)
		_, err = r.Path()
		wantErr(t, err, ErrClosed)
		_, _, err = p.ReadDirect(t.Context(), s, "a")
		wantErr(t, err, ErrClosed)
		_, err = p.Usage()
		wantErr(t, err, ErrClosed)
		if n := p.Counters(); n.Misses != 2 {
			t.Errorf("counters after Close: %+v", n)
		}
		must(t, r.Close())
		must(t, ra.Close())
		must(t, r.Close())
		for _, l := range []*Ref{a, a, f, never, waits} {
			l.Release()
		}
		_, err = a.Open(t.Context())
		wantErr(t, err, ErrClosed)
	}
}

func TestReleasedRef(t *testing.T) {
	t.Parallel()
	s := small("released", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib, Keep: Drop})
	l := p.Prefetch(s, "a")
	r := ok(l.Open(t.Context()))(t)
	l.Release()
	l.Release()
	_, err := l.Open(t.Context())
	wantErr(t, err, ErrClosed)
	if got := ok(io.ReadAll(r))(t); !bytes.Equal(got, content("a", 0, 64*kib)) {
		t.Error("other bytes")
	}
	must(t, r.Close())
	must(t, r.Close())
	_, err = r.ReadAt(make([]byte, 1), 0)
	wantErr(t, err, ErrClosed)
	soon(t, "its space being free", func() bool { return ok(p.Usage())(t).Bytes == 0 })
}

func TestCloseDuringRelease(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := small("races", 4*kib)
		dir := t.TempDir()
		p := ok(Open(context.Background(), dir, quick(Options{Keep: Drop})))(t)
		var all []*Ref
		for i := range 200 {
			all = append(all, p.Prefetch(s, fmt.Sprint(i)))
		}
		must(t, p.Wait(t.Context()))
		var wg sync.WaitGroup
		for k := range 4 {
			wg.Go(func() {
				for i := k; i < len(all); i += 4 {
					all[i].Release()
				}
			})
		}
		wg.Go(func() { must(t, p.Close()) })
		wg.Wait()
		if n, files, err := onDisk(dir); n != 0 || err != nil {
			t.Errorf("%d bytes in %d files stay: %v", n, files, err)
		}
	}
}
