//go:build linux

package stage

import (
	"fmt"
	"testing"
	"time"

	"leat/internal/fault"
)

func TestKeepDrop(t *testing.T) {
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

func TestKeepLRU(t *testing.T) {
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

// The object is removed, or can be evicted, before anyone learns that its copy has ended.
func TestReleaseAtEndOfCopy(t *testing.T) {
	gate := make(chan struct{})
	s := newSource("end").put("a", object{size: 64 * kib, gate: gate})
	p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib, Keep: Drop})
	defer fault.Set(nil)
	var l *Ref
	passed := 0
	fault.Set(func(point string) error {
		switch {
		case point == "stage.copied" && passed == 0:
			l.Release() // too late to cancel the copy
			passed++
		case point == "index.marked" && passed == 1: // being removed
			passed++
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.busy != 1 || len(p.items) != 1 {
				t.Errorf("%d items in progress of %d while the object is removed", p.busy, len(p.items))
			}
		}
		return nil
	})
	l = p.Prefetch(s, "a")
	close(gate)
	must(t, p.Wait(within(t, time.Minute)))
	if u := wantDisk(t, p); passed != 2 || u.Objects != 0 {
		t.Errorf("%d of 2 points passed, %d objects stay", passed, u.Objects)
	}
}

func TestWantedAgainAtEndOfCopy(t *testing.T) {
	for _, prefetched := range []bool{true, false} {
		gate := make(chan struct{})
		s := newSource("again").put("a", object{size: 64 * kib, gate: gate})
		p := pool(t, t.TempDir(), Options{MaxBytes: 64 * kib, Keep: Drop})
		var first, second *Ref
		passed := 0
		opened := make(chan error, 1)
		fault.Set(func(point string) error {
			switch {
			case point == "stage.copied" && passed == 0:
				passed++
				first.Release()
			case point == "index.marked" && passed == 1:
				passed++
				second = p.Prefetch(s, "a")
				if !prefetched {
					go func() { _, err := second.Bytes(t.Context()); opened <- err }()
					soon(t, "waiting", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return second.it.wanted == 1 })
				}
			}
			return nil
		})
		first = p.Prefetch(s, "a")
		close(gate)
		must(t, p.Wait(within(t, time.Minute)))
		fault.Set(nil)
		if passed != 2 {
			t.Fatalf("%d of 2 points passed", passed)
		}
		if !prefetched {
			must(t, <-opened)
		}
		if stateOf(second) != staged {
			t.Errorf("the object that is wanted again is %s", stateNames[stateOf(second)])
		}
		wantBytes(t, second, s, 0)
		second.Release()
		if u := wantDisk(t, p); u.Objects != 0 {
			t.Errorf("%d objects stay", u.Objects)
		}
	}
}
