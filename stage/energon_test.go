//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// The failures that were seen in Megatron-Energon's FileStoreCachePool, each by name.

const (
	kib = 1 << 10
	mib = 1 << 20
)

// small has objects of one size under every name.
func small(id string, size int64) *source {
	s := newSource(id)
	s.missing = func(string) *object { return &object{size: size} }
	return s
}

func TestEnergonOpenInFullPool(t *testing.T) {
	t.Parallel()
	watchdog(t, 5*time.Minute)
	for _, unknown := range []bool{false, true} {
		s := small("full", 64*kib)
		p := pool(t, t.TempDir(), Options{MaxBytes: 3 * 64 * kib, Workers: 1})
		s.put("c", object{size: 64 * kib, unknown: unknown, middle: make(chan struct{})})
		s.put("d", object{size: 64 * kib, unknown: unknown, middle: s.objects["c"].middle})
		for _, name := range []string{"a", "b"} {
			l := p.Prefetch(s, name)
			defer l.Release()
			wantBytes(t, l, s, 0)
		}
		c, d := p.Prefetch(s, "c"), p.Prefetch(s, "d")
		become(t, c, running) // with the space that is left; d has none
		var wg sync.WaitGroup
		for _, l := range []*Ref{c, c, d, d} {
			wg.Go(func() { wantBytes(t, l, s, 0) })
		}
		soon(t, "waiting", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return c.it.wanted == 2 &&
				d.it.wanted == 2
		})
		close(s.get("c").middle)
		wg.Wait()
		if n := p.Counters(); n.Errors != 0 {
			t.Errorf("errors: %+v", n)
		}
		c.Release()
		d.Release()
	}
}

func TestEnergonDirectReadBlocksNoOtherKey(t *testing.T) {
	t.Parallel()
	watchdog(t, 5*time.Minute)
	s := small("direct", 64*kib)
	p := pool(t, t.TempDir(), Options{MaxBytes: 2 * 64 * kib})
	a := p.Prefetch(s, "a")
	wantBytes(t, a, s, 0)
	gate := make(chan struct{})
	s.put("big", object{size: mib, gate: gate})
	big := p.Prefetch(s, "big")
	done := make(chan error)
	go func() { _, err := big.Bytes(t.Context()); done <- err }()
	become(t, big, running)
	// While the source does not answer, everything else goes on.
	begin := time.Now()
	wantBytes(t, a, s, 0)
	b := p.Prefetch(s, "b")
	wantBytes(t, b, s, 0)
	c := p.Prefetch(s, "c") // there is no space for it now
	wantBytes(t, c, s, 0)
	for _, l := range []*Ref{a, b, c} {
		l.Release()
	}
	wantBytes(t, p.Prefetch(s, "a"), s, 0)
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("other keys took %v", d)
	}
	close(gate)
	must(t, <-done)
}

func TestEnergonReleaseWhileReadingFreesSpace(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{LRU, Drop} {
		s := small("dropped", 64*kib)
		dir := t.TempDir()
		p := pool(t, dir, Options{MaxBytes: 4 * 64 * kib, Keep: keep})
		for i := range 20 {
			middle := make(chan struct{})
			for j := range 4 {
				s.put(fmt.Sprint(i, "-", j), object{size: 64 * kib, middle: middle, unknown: j == 3})
			}
			for j := range 4 {
				l := p.Prefetch(s, fmt.Sprint(i, "-", j))
				become(t, l, running)
				l.Release()
			}
			close(middle)
			must(t, p.Wait(within(t, time.Minute)))
		}
		soon(t, "the last copies ending", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.items) == 0 })
		u := wantDisk(t, p)
		if keep == Drop && u.Bytes != 0 {
			t.Errorf("Drop: %d bytes of %d objects stay", u.Bytes, u.Objects)
		}
		// All of the space can be had still.
		for j := range 4 {
			l := p.Prefetch(s, fmt.Sprint("more", j))
			defer l.Release()
			wantBytes(t, l, s, 0)
			if stateOf(l) != staged {
				t.Errorf("Keep %d: there is no space for object %d", keep, j)
			}
		}
	}
}

func TestEnergonOversizedObject(t *testing.T) {
	t.Parallel()
	for _, unknown := range []bool{false, true} {
		s := small("oversized", 64*kib)
		s.put("big", object{size: 3 * mib, unknown: unknown})
		p := pool(t, t.TempDir(), Options{MaxBytes: mib, Workers: 1})
		big, a := p.Prefetch(s, "big"), p.Prefetch(s, "a")
		must(t, p.Wait(within(t, time.Minute)))
		if stateOf(a) != staged {
			t.Fatal("the object behind the large one is not staged")
		}
		_, _, before := s.count("big")
		if before > 0 && !unknown {
			t.Errorf("%d bytes of an object that is announced to be too large were read", before)
		}
		wantBytes(t, big, s, 0)
		_, _, given := s.count("big")
		if given-before != 3*mib {
			t.Errorf("%d bytes were read to get %d", given-before, 3*mib)
		}
		if before > mib+bufferSize {
			t.Errorf("%d bytes were read in advance of an object that can't be staged", before)
		}
		if n := p.Counters(); n.ReadThrough != 1 || n.TooLarge == 0 && !unknown {
			t.Errorf("counters: %+v", n)
		}
	}
}

func TestEnergonErrorGoesToWaitersOnly(t *testing.T) {
	t.Parallel()
	s := small("error", 100)
	gate := make(chan struct{})
	s.put("a", object{size: 100, fails: 1, err: errFinal, gate: gate})
	p := pool(t, t.TempDir(), Options{})
	early := p.Prefetch(s, "a") // has asked, and does not wait
	defer early.Release()
	become(t, early, running)
	errs := make(chan error)
	for range 2 {
		go func() {
			l := p.Prefetch(s, "a")
			defer l.Release()
			_, err := l.Open(t.Context())
			errs <- err
		}()
	}
	soon(t, "two waiting", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return early.it.wanted == 2 })
	close(gate)
	for range 2 {
		wantErr(t, <-errs, errFinal)
	}
	wantBytes(t, early, s, 0)
	wantBytes(t, p.Prefetch(s, "a"), s, 0)
	if reads, _, _ := s.count("a"); reads != 2 {
		t.Errorf("%d requests, not the one that failed and one that did not", reads)
	}
}

func TestEnergonDiskError(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{100 * kib, 2 * mib} {
		for _, damage := range []string{"cut off", "removed", "cut in the middle"} {
			t.Run(fmt.Sprintf("%d KiB %s", size/kib, damage), func(t *testing.T) {
				s := small("disk", size)
				var warned warnings
				p := pool(t, t.TempDir(), Options{Logger: warned.logger()})
				a, b := p.Prefetch(s, "a"), p.Prefetch(s, "b")
				defer a.Release()
				defer b.Release()
				wantBytes(t, b, s, 0)
				r := ok(a.Open(t.Context()))(t) // has its file open, or not yet
				path := p.store.Path(r.e.Place)
				switch damage {
				case "removed":
					must(t, os.Remove(path))
				case "cut off":
					must(t, os.Truncate(path, 0))
				default:
					must(t, os.Truncate(path, max(0, r.e.Place.Offset)+size/2))
				}
				wantBytes(t, a, s, 0)
				got := make([]byte, size)
				_, err := r.ReadAt(got, 0)
				must(t, err)
				if !bytes.Equal(got, content("a", 0, size)) {
					t.Error("the reader gives other bytes")
				}
				must(t, r.Close())
				if damage == "removed" && size < mib {
					return // the segment's descriptor is open, and its bytes are there
				}
				if p.Counters().Damaged == 0 {
					t.Error("the damage is not counted")
				}
				// Once nobody has the damaged one any more, it is staged anew.
				a.Release()
				again := p.Prefetch(s, "a")
				defer again.Release()
				wantBytes(t, again, s, 0)
				if r := ok(again.Open(t.Context()))(t); p.store.Path(r.e.Place) == path && !r.e.Place.Packed() {
					t.Error("the damaged file is served again")
				} else {
					must(t, r.Close())
				}
				if warned.n.Load() == 0 {
					t.Error("no warning is logged")
				}
			})
		}
	}
}

func TestEnergonSecondGet(t *testing.T) {
	t.Parallel()
	s := small("twice", 1000)
	p := pool(t, t.TempDir(), Options{})
	l := p.Prefetch(s, "a")
	defer l.Release()
	first := ok(l.Bytes(t.Context()))(t)
	first[0]++ // it is the caller's
	for range 3 {
		wantBytes(t, l, s, 0)
	}
	typed := Typed(p, func(b []byte) (string, error) { return string(b), nil })
	v := typed.Prefetch(s, "a")
	defer v.Release()
	for range 3 {
		got, info, err := v.Get(t.Context())
		if err != nil || got != string(content("a", 0, 1000)) || info.Source != "test://twice/a" {
			t.Errorf("%d bytes of %+v: %v", len(got), info, err)
		}
	}
	if reads, _, _ := s.count("a"); reads != 1 {
		t.Errorf("%d requests", reads)
	}
}

func TestEnergonReleasedObjectStays(t *testing.T) {
	t.Parallel()
	s := small("epochs", 10*kib)
	dir := t.TempDir()
	p := pool(t, dir, Options{})
	epoch := func(p *Pool) {
		for i := range 50 {
			if !bytes.Equal(got(t, p, s, fmt.Sprint(i)), content(fmt.Sprint(i), 0, 10*kib)) {
				t.Fatalf("object %d is another", i)
			}
		}
	}
	epoch(p)
	epoch(p)
	if reads, stats, _ := s.all(); reads != 50 || stats != 0 {
		t.Errorf("%d reads and %d look-ups of 50 objects in two epochs", reads, stats)
	}
	must(t, p.Close())
	epoch(pool(t, dir, Options{}))
	if reads, stats, _ := s.all(); reads != 50 || stats != 50 {
		t.Errorf("%d reads and %d look-ups of 50 objects after a third one in another pool", reads, stats)
	}
}
