//go:build linux

package stage

import (
	"fmt"
	"testing"
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
