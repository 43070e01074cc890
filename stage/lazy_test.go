//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/objstore"
)

// The rules of Lazy, one by one.

func TestAQueuedObjectIsPromotedAndItsDownloadShared(t *testing.T) {
	t.Parallel()
	s := small("queued", 1000)
	gate := make(chan struct{})
	s.put("first", object{size: 1000, gate: gate})
	p := pool(t, t.TempDir(), Options{Workers: 1})
	first, second, third := p.Prefetch(s, "first"), p.Prefetch(s, "second"), p.Prefetch(s, "third")
	become(t, first, running)
	if stateOf(second) != queued || stateOf(third) != queued {
		t.Fatal("the others are not queued behind it")
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			l := p.Prefetch(s, "third")
			defer l.Release()
			wantBytes(t, l, s, 0)
		})
	}
	wg.Wait() // while the only worker is at the first
	if stateOf(third) != staged || stateOf(second) != queued {
		t.Errorf("the third is %s, the second %s", stateNames[stateOf(third)], stateNames[stateOf(second)])
	}
	close(gate)
	must(t, p.Wait(within(t, 10*time.Second)))
	for _, name := range []string{"first", "second", "third"} {
		if reads, _, given := s.count(name); reads != 1 || given != 1000 {
			t.Errorf("%s was read by %d requests of %d bytes", name, reads, given)
		}
	}
}

func TestAnObjectBeingCopiedIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := small("running", 1000)
	middle := make(chan struct{})
	s.put("a", object{size: 1000, middle: middle})
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n == 500 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := l.Open(ctx); done <- err }()
	soon(t, "waiting", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return l.h.it.wanted == 1 })
	cancel() // ends the waiting, not the copy
	wantErr(t, <-done, context.Canceled)
	close(middle)
	wantBytes(t, l, s, 0)
	if reads, _, given := s.count("a"); reads != 1 || given != 1000 {
		t.Errorf("%d requests, %d bytes", reads, given)
	}
}

func TestAStagedObjectIsOpenedWithoutItsSource(t *testing.T) {
	t.Parallel()
	s := small("staged", 1000)
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	must(t, p.Wait(t.Context()))
	s.put("a", object{size: 1000, fails: -1, err: errFinal})
	for range 3 {
		r := ok(l.Open(t.Context()))(t)
		if !r.Staged() || r.Size() != 1000 {
			t.Errorf("staged: %v, size %d", r.Staged(), r.Size())
		}
		must(t, r.Close())
	}
	if reads, stats, _ := s.count("a"); reads != 1 || stats != 0 {
		t.Errorf("%d reads, %d look-ups", reads, stats)
	}
}

func TestAnObjectWithoutRoomIsReadThroughOnceForAllWhoWait(t *testing.T) {
	t.Parallel()
	s := small("room", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	a := p.Prefetch(s, "a")
	wantBytes(t, a, s, 0)
	gate := make(chan struct{})
	s.put("b", object{size: 64 * kib, gate: gate})
	b := p.Prefetch(s, "b")
	close(gate)
	become(t, b, parked)
	_, _, before := s.count("b")
	gate = make(chan struct{})
	s.edit("b", func(o *object) { o.gate = gate })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r := ok(b.Open(t.Context()))(t)
			defer r.Close()
			if r.Staged() {
				t.Error("staged without room")
			}
			if got := ok(io.ReadAll(r))(t); !bytes.Equal(got, content("b", 0, 64*kib)) {
				t.Error("other bytes")
			}
		})
	}
	soon(t, "four waiting", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return b.h.it.wanted == 4 })
	close(gate)
	wg.Wait()
	if _, _, given := s.count("b"); given-before != 64*kib {
		t.Errorf("%d bytes were read for four of %d", given-before, 64*kib)
	}
	if u := wantDisk(t, p); u.Bytes != 64*kib || p.Counters().ReadThrough != 1 {
		t.Errorf("%d bytes, %+v", u.Bytes, p.Counters())
	}
	// Room that is given back is taken by who comes next.
	a.Release()
	wantBytes(t, b, s, 0)
	if stateOf(b) != staged {
		t.Errorf("b is %s", stateNames[stateOf(b)])
	}
}

func TestAParkedObjectIsCopiedWhenRoomBecomesFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := small("parked", 64*kib)
	p := pool(t, dir, Options{MaxBytes: 64 * kib})
	other := pool(t, dir, Options{MaxBytes: 64 * kib})
	for _, holder := range []*Pool{p, other} {
		a := holder.Prefetch(s, "a")
		wantBytes(t, a, s, 0)
		b := p.Prefetch(s, "b")
		become(t, b, parked)
		reads, _, _ := s.count("b")
		time.Sleep(30 * time.Millisecond)
		if again, _, _ := s.count("b"); again != reads {
			t.Errorf("the source was asked %d times while there was no room", again-reads)
		}
		a.Release()
		become(t, b, staged) // nobody opens it
		b.Release()
	}
}

func TestWaitingForRoomCostsHardlyAnything(t *testing.T) {
	for _, n := range []int{1, 50} {
		waitingCosts(t, n)
	}
}

func waitingCosts(t *testing.T, n int) {
	s := small("idle", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	wantBytes(t, p.Prefetch(s, "a"), s, 0)
	a := p.Prefetch(s, "a")
	var all []*Lazy
	for i := range n {
		all = append(all, p.Prefetch(s, fmt.Sprint(i)))
	}
	soon(t, "all being parked", func() bool { return p.Counters().Waits == int64(n) })
	time.Sleep(20 * time.Millisecond)
	var before, after int64
	before = cpuTime(t)
	time.Sleep(300 * time.Millisecond)
	after = cpuTime(t)
	t.Logf("%d objects waiting for room cost %d %% of a core", len(all), (after-before)/int64(3*time.Millisecond))
	if after-before > int64(60*time.Millisecond) {
		t.Errorf("%d objects that wait for room cost %v in 300 ms", n, time.Duration(after-before))
	}
	a.Release()
	for _, l := range all {
		l.Release()
	}
}

func TestAFailureGoesToThoseWhoWaitedAndTheNextTriesAgain(t *testing.T) {
	t.Parallel()
	s := small("failure", 1000)
	s.put("a", object{size: 1000, fails: 1, err: errFinal})
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	become(t, l, failed)
	wantBytes(t, l, s, 0) // the failure was before it was asked for
	s.put("b", object{size: 1000, fails: -1, err: errFinal})
	b := p.Prefetch(s, "b")
	for range 3 {
		_, err := b.Open(t.Context())
		wantErr(t, err, errFinal)
	}
	s.put("b", object{size: 1000})
	wantBytes(t, b, s, 0)
	_, err := p.Prefetch(newSource("empty"), "nothing").Open(t.Context())
	wantErr(t, err, os.ErrNotExist)
}

func TestTemporaryFailuresAndBrokenBodiesAreNotSeen(t *testing.T) {
	t.Parallel()
	s := small("temporary", 3*mib)
	s.put("a", object{size: 3 * mib, fails: 3})
	s.put("b", object{size: 3 * mib, cut: mib / 3})
	p := pool(t, t.TempDir(), Options{RangeBytes: mib})
	for _, name := range []string{"a", "b"} {
		l := p.Prefetch(s, name)
		defer l.Release()
		wantBytes(t, l, s, 0)
	}
	if n := p.Counters(); n.Retries != 4 || n.Errors != 0 || n.Misses != 2 {
		t.Errorf("counters: %+v", n)
	}
	if _, _, given := s.count("b"); given != 3*mib {
		t.Errorf("%d bytes were read of an object of %d whose body broke off once", given, 3*mib)
	}
}

func TestAStalledRequestIsAbandonedAndMadeAgain(t *testing.T) {
	t.Parallel()
	s := small("stalled", 1000)
	s.put("a", object{size: 1000, middle: make(chan struct{})})
	p := pool(t, t.TempDir(), Options{Retry: objstore.Retry{Stall: 50 * time.Millisecond}})
	l := p.Prefetch(s, "a")
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n == 500 })
	s.edit("a", func(o *object) { o.middle = nil })
	wantBytes(t, l, s, 0)
	if p.Counters().Retries == 0 {
		t.Error("no attempt was counted")
	}
}

func TestReleasedWhileQueuedIsNeverRead(t *testing.T) {
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

func TestDropCancelsACopyThatNobodyWantsAnyMore(t *testing.T) {
	t.Parallel()
	s := small("cancel", 1000)
	s.put("a", object{size: 1000, middle: make(chan struct{})})
	p := pool(t, t.TempDir(), Options{Keep: Drop})
	l := p.Prefetch(s, "a")
	soon(t, "half of it being read", func() bool { _, _, n := s.count("a"); return n == 500 })
	l.Release()
	must(t, p.Wait(within(t, 10*time.Second))) // though its source gives nothing more
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

func TestWantedAgainWhileAReadThroughEnds(t *testing.T) {
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
		become(t, b, through)
		cancel()
		wantErr(t, <-done, context.Canceled)
		s.edit("b", func(o *object) { o.middle = nil })
		b.Release() // the last one: the read is cancelled
		b = p.Prefetch(s, "b")
		wantBytes(t, b, s, 0)
		b.Release()
	}
}

func TestAForgottenLazyIsReleased(t *testing.T) {
	t.Parallel()
	s := small("forgotten", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	func() {
		l := p.Prefetch(s, "a")
		r := ok(l.Open(t.Context()))(t)
		_ = ok(r.ReadAt(make([]byte, 10), 0))(t)
	}()
	b := p.Prefetch(s, "b")
	defer b.Release()
	soon(t, "the forgotten ones giving their room back", func() bool { runtime.GC(); return stateOf(b) == staged })
}

func TestALazyOrReaderInUseIsNotTakenForForgotten(t *testing.T) {
	t.Parallel()
	s := small("in use", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib})
	r := ok(p.Prefetch(s, "a").Open(t.Context()))(t)
	path := ""
	for i := range 3 {
		runtime.GC()
		p.Prefetch(s, "b").Release()
		if i == 1 {
			_, err := r.Path() // no room for another copy
			wantErr(t, err, ErrNoRoom)
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

func TestPrefetchNeitherWaitsNorFails(t *testing.T) {
	t.Parallel()
	s := small("prefetch", 1000)
	s.missing = func(string) *object { return &object{size: 1000, gate: make(chan struct{})} } // none answers
	p := pool(t, t.TempDir(), Options{MaxQueue: 100, Workers: 2})
	begin := time.Now()
	var all []*Lazy
	for i := range 10000 {
		all = append(all, p.Prefetch(s, fmt.Sprint(i)))
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("10000 calls took %v", d)
	}
	if n := p.Counters().NotQueued; n < 9890 || n > 9900 {
		t.Errorf("%d were not queued, of 10000 with 2 workers and a queue of 100", n)
	}
	// Those are read when they are asked for.
	s.put("9999", object{size: 1000})
	wantBytes(t, all[9999], s, 0)
}

func TestAfterCloseEverythingAnswersErrClosed(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{LRU, Drop} {
		watchdog(t, time.Minute)
		s := small("closed", 64*kib)
		s.put("never", object{size: 1000, gate: make(chan struct{})})
		p := ok(Open(t.TempDir(), quick(Options{Workers: 1, Keep: keep, MaxBytes: 128 * kib})))(t)
		a, f := p.Prefetch(s, "a"), p.Prefetch(s, "f")
		wantBytes(t, a, s, 0)
		wantBytes(t, f, s, 0)
		r := ok(a.Open(t.Context()))(t)
		ra := ok(f.Open(t.Context()))(t)
		never := p.Prefetch(s, "never")
		waits := p.Prefetch(s, "waits")
		errs := make(chan error)
		for _, l := range []*Lazy{never, waits} {
			go func() { _, err := l.Open(context.Background()); errs <- err }()
		}
		go func() { _, _, err := p.Get(context.Background(), s, "never"); errs <- err }()
		soon(t, "all waiting", func() bool { n, _, _ := s.count("never"); return n >= 2 })
		begin := time.Now()
		must(t, p.Close())
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("Close took %v", d)
		}
		for range 3 {
			if err := <-errs; err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("who waited got %v", err)
			}
		}
		must(t, p.Close())
		for _, l := range []*Lazy{a, never, waits, p.Prefetch(s, "new"), p.Put([]byte("x"), "x")} {
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
		_, _, err = p.Get(t.Context(), s, "a")
		wantErr(t, err, ErrClosed)
		_, err = p.Usage()
		wantErr(t, err, ErrClosed)
		if n := p.Counters(); n.Misses != 2 {
			t.Errorf("counters after Close: %+v", n)
		}
		must(t, r.Close())
		must(t, ra.Close())
		must(t, r.Close())
		for _, l := range []*Lazy{a, a, f, never, waits} {
			l.Release()
		}
		_, err = a.Open(t.Context())
		wantErr(t, err, ErrClosed)
	}
}

func TestAReleasedLazyAnswersErrClosedAndItsReadersGoOn(t *testing.T) {
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
	soon(t, "its room being free", func() bool { return ok(p.Usage())(t).Bytes == 0 })
}

func TestCloseWhileLaziesAreReleased(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := small("races", 4*kib)
		dir := t.TempDir()
		p := ok(Open(dir, quick(Options{Keep: Drop})))(t)
		var all []*Lazy
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

func TestReaderReadsLikeAFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 100 * kib, 3 * mib} {
		for _, how := range []string{"staged", "read through"} {
			s := small("reader", size)
			o := Options{RangeBytes: mib}
			if how == "read through" {
				o.MaxFiles = 1
			}
			p := pool(t, t.TempDir(), o)
			if how == "read through" {
				l := p.Prefetch(s, "other")
				must(t, p.Wait(t.Context()))
				defer l.Release()
			}
			l := p.Prefetch(s, "a")
			r := ok(l.Open(t.Context()))(t)
			if r.Staged() != (how == "staged") || r.Size() != size {
				t.Errorf("%s: Staged is %v, Size %d", how, r.Staged(), r.Size())
			}
			want := content("a", 0, size)
			if got := ok(io.ReadAll(r))(t); !bytes.Equal(got, want) {
				t.Errorf("%s: other bytes", how)
			}
			if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: Read at the end: %d, %v", how, n, err)
			}
			for _, c := range []struct{ at, n int64 }{{0, size}, {size / 2, size}, {size, 1}, {size + 10, 1}, {size / 3, size / 3}, {0, 0}} {
				b := make([]byte, c.n)
				n, err := r.ReadAt(b, c.at)
				wantN, wantErr := bytes.NewReader(want).ReadAt(make([]byte, c.n), c.at)
				if n != wantN || !errors.Is(err, wantErr) && c.n > 0 || !bytes.Equal(b[:n], want[min(c.at, size):min(c.at, size)+int64(n)]) {
					t.Errorf("%s: ReadAt %d bytes at %d of %d: %d, %v, not %d, %v", how, c.n, c.at, size, n, err, wantN, wantErr)
				}
			}
			for _, c := range []struct {
				to     int64
				whence int
				want   int64
			}{{size / 2, io.SeekStart, size / 2}, {1, io.SeekCurrent, size/2 + 1}, {-size, io.SeekEnd, 0}} {
				if at, err := r.Seek(c.to, c.whence); at != c.want || err != nil {
					t.Errorf("Seek(%d, %d): %d, %v", c.to, c.whence, at, err)
				}
			}
			if _, err := r.Seek(-1, io.SeekStart); err == nil {
				t.Error("seeking before the first byte is no error")
			}
			if _, err := r.Seek(0, 7); err == nil {
				t.Error("whence 7 is no error")
			}
			if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
				t.Error("reading before the first byte is no error")
			}
			must(t, r.Close())
			l.Release()
		}
	}
}

func TestALargeObjectThatIsNotStagedIsReadPieceByPiece(t *testing.T) {
	t.Parallel()
	const size = directMemory + 5*mib + 7
	s := small("large", 100)
	s.put("a", object{size: size})
	p := pool(t, t.TempDir(), Options{MaxBytes: mib})
	r := ok(p.Prefetch(s, "a").Open(t.Context()))(t)
	buf, want := make([]byte, 1000), make([]byte, 1000)
	for _, at := range []int64{0, size / 2, size - 1000} {
		_ = ok(r.ReadAt(buf, at))(t)
		if fill(want, seedOf("a", 0), at); !bytes.Equal(buf, want) {
			t.Errorf("other bytes at %d", at)
		}
	}
	if _, _, given := s.count("a"); given > 4000+3*bufferSize {
		t.Errorf("%d bytes were read for 3000", given)
	}
	_ = ok(r.Seek(size-3*mib, io.SeekStart))(t)
	before, _, _ := s.count("a")
	tail := ok(io.ReadAll(r))(t)
	full := make([]byte, 3*mib)
	if fill(full, seedOf("a", 0), size-3*mib); !bytes.Equal(tail, full) {
		t.Error("the tail is another")
	}
	if after, _, _ := s.count("a"); after != before+1 {
		t.Errorf("%d requests for one stream", after-before)
	}
	// It is one version, or none.
	s.put("a", object{size: size, version: 1})
	if _, err := r.ReadAt(buf, 100); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("reading an object that changed: %v", err)
	}
	must(t, r.Close())
}

func TestPathIsAFileOfExactlyTheObject(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 10, 100 * kib, 2 * mib} {
		for _, how := range []string{"staged", "read through"} {
			s := small("path", size)
			p := pool(t, t.TempDir(), Options{MaxFiles: 3})
			var fillers []*Lazy
			if how == "read through" {
				for i := range 3 {
					fillers = append(fillers, p.Prefetch(s, fmt.Sprint(i)))
				}
				must(t, p.Wait(t.Context()))
			}
			l := p.Prefetch(s, "dir/scene.TIF")
			r := ok(l.Open(t.Context()))(t)
			for _, f := range fillers {
				f.Release()
			}
			path := ok(r.Path())(t)
			if !bytes.Equal(ok(os.ReadFile(path))(t), content("dir/scene.TIF", 0, size)) {
				t.Errorf("%s, %d bytes: %s is another", how, size, path)
			}
			if filepath.Ext(path) != ".TIF" {
				t.Errorf("the name is %s", path)
			}
			if again := ok(r.Path())(t); again != path {
				t.Errorf("first %s, then %s", path, again)
			}
			r2 := ok(l.Open(t.Context()))(t)
			path2 := ok(r2.Path())(t)
			if how == "staged" && path2 != path {
				t.Errorf("two readers have two files: %s and %s", path, path2)
			}
			must(t, r.Close())
			if !bytes.Equal(ok(os.ReadFile(path2))(t), content("dir/scene.TIF", 0, size)) {
				t.Error("the other reader's file is another after the first was closed")
			}
			must(t, r2.Close())
			l.Release()
			if reads, _, _ := s.count("dir/scene.TIF"); how == "staged" && reads != 1 {
				t.Errorf("%d requests", reads)
			}
			if size > 0 { // an empty one is counted as a block
				wantDisk(t, p)
			}
		}
	}
}

func TestSourceInfoTellsWhereAValueComesFrom(t *testing.T) {
	t.Parallel()
	s := small("info", 10)
	p := pool(t, t.TempDir(), Options{})
	want := SourceInfo{Source: "test://info/a/b.jpg", Index: -1, Files: []string{"a/b.jpg"}}
	l := p.Prefetch(s, "a/b.jpg")
	r := ok(l.Open(t.Context()))(t)
	_, direct, err := p.Get(t.Context(), s, "a/b.jpg")
	must(t, err)
	for what, got := range map[string]SourceInfo{"Lazy": l.Info(), "Reader": r.Info(), "Get": direct} {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
	}
	must(t, r.Close())
	d := describing{s}
	if got := p.Prefetch(d, "7").Info(); got.Index != 7 || got.Shard != "shard-1" {
		t.Errorf("of a source that describes: %+v", got)
	}
}

// describing is a source of samples.
type describing struct{ *source }

func (d describing) Describe(name string) SourceInfo {
	return SourceInfo{Source: d.ID(name), Index: 7, Shard: "shard-1", Files: []string{name + ".jpg", name + ".json"}}
}

func TestKeepDropRemovesAtTheLastReleaseUnlessAnotherUsesIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := small("drop", 100*kib)
	p, other := pool(t, dir, Options{Keep: Drop}), pool(t, dir, Options{})
	a, again := p.Prefetch(s, "a"), p.Prefetch(s, "a")
	b := p.Prefetch(s, "b")
	wantBytes(t, a, s, 0)
	wantBytes(t, b, s, 0)
	theirs := other.Prefetch(s, "b")
	wantBytes(t, theirs, s, 0)
	a.Release()
	if u := ok(p.Usage())(t); u.Objects != 2 {
		t.Errorf("%d objects after the first of two releases", u.Objects)
	}
	again.Release()
	b.Release()
	if u := wantDisk(t, p); u.Objects != 1 || u.Bytes != 100*kib {
		t.Errorf("%d objects of %d bytes, and not the one that the other pool uses", u.Objects, u.Bytes)
	}
	wantBytes(t, theirs, s, 0)
	theirs.Release()
	if reads, _, _ := s.count("b"); reads != 1 {
		t.Errorf("b was read %d times", reads)
	}
	if n := p.Counters().Evicted; n != 1 {
		t.Errorf("%d evicted", n)
	}
}

func TestTheObjectsThatWereNotUsedForLongestGoFirst(t *testing.T) {
	t.Parallel()
	s := small("lru", 4*kib)
	p := pool(t, t.TempDir(), Options{MaxFiles: 10})
	for i := range 10 {
		got(t, p, s, fmt.Sprint(i))
	}
	got(t, p, s, "0") // used again
	for i := 10; i < 14; i++ {
		got(t, p, s, fmt.Sprint(i))
	}
	before, _, _ := s.all()
	for _, i := range []int{0, 5, 9, 13} {
		got(t, p, s, fmt.Sprint(i))
	}
	if after, _, _ := s.all(); after != before {
		t.Errorf("%d of what was used last was read again", after-before)
	}
	for _, i := range []int{1, 2} {
		got(t, p, s, fmt.Sprint(i))
	}
	if after, _, _ := s.all(); after != before+2 {
		t.Error("what was not used for longest is still there")
	}
	if n := p.Counters().Evicted; n < 4 {
		t.Errorf("%d evicted", n)
	}
}
