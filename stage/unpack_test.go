//go:build linux

package stage

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"leat/stage/internal/store"
)

// pathOf opens an object and has its file compared with its bytes.
func pathOf(t testing.TB, l *Ref, want []byte) string {
	t.Helper()
	r := ok(l.Open(within(t, time.Minute)))(t)
	defer r.Close()
	path := ok(r.Path())(t)
	if b := ok(os.ReadFile(path))(t); !bytes.Equal(b, want) {
		t.Errorf("%s holds %d other bytes", path, len(b))
	}
	return path
}

func TestPrefetchFile(t *testing.T) {
	for _, size := range []int64{1, 5000, 3 * mib} {
		for _, there := range []bool{false, true} {
			dir := t.TempDir()
			s := newSource("once").put("a.txt", object{size: size})
			if there { // by another pool, which does not use it any more
				before := ok(Open(context.Background(), dir, quick(Options{})))(t)
				got(t, before, s, "a.txt")
				must(t, before.Close())
			}
			reads, _, _ := s.all()
			p := pool(t, dir, Options{})
			l := p.PrefetchFile(s, "a.txt")
			pathOf(t, l, content("a.txt", 0, size))
			l.Release()
			u := wantDisk(t, p)
			if charge := store.Charge(size); u.Objects != 1 || u.Bytes > charge {
				t.Errorf("%d bytes, there before: %v: %d objects take %d", size, there, u.Objects, u.Bytes)
			}
			if now, _, _ := s.all(); there && now != reads {
				t.Errorf("%d bytes: read again", size)
			}
			// It is the same object to all, and its path costs no more.
			l = p.Prefetch(s, "a.txt")
			wantBytes(t, l, s, 0)
			pathOf(t, l, content("a.txt", 0, size))
			l.Release()
			if again := wantDisk(t, p); again.Objects != u.Objects || again.Bytes != u.Bytes {
				t.Errorf("%d bytes: %d objects of %d bytes after another look", size, again.Objects, again.Bytes)
			}
		}
	}
}

func TestUnpackDuringUse(t *testing.T) {
	dir := t.TempDir()
	s := small("moved", 5000)
	other := pool(t, dir, Options{})
	p := pool(t, dir, Options{MaxAge: -1})
	used := other.Prefetch(s, "a")
	wantBytes(t, used, s, 0)
	l := p.PrefetchFile(s, "a")
	pathOf(t, l, content("a", 0, 5000))
	wantBytes(t, used, s, 0)
	used.Release()
	wantBytes(t, l, s, 0)
	if reads, _, _ := s.all(); reads != 1 {
		t.Errorf("%d reads of the source", reads)
	}
	l.Release()
	if n := ok(p.Trim(t.Context(), 0))(t); n != 2 {
		t.Errorf("%d removed, not the object and what it was before", n)
	}
	wantDisk(t, p)
}

func TestUnpackWithoutSpace(t *testing.T) {
	dir := t.TempDir()
	s := small("narrow", 5000)
	p := pool(t, dir, Options{MaxBytes: 3 * 4 * kib})
	got(t, p, s, "a")
	l := p.PrefetchFile(s, "a")
	wantBytes(t, l, s, 0)
	if stateOf(l) != staged {
		t.Errorf("it is %s", stateNames[stateOf(l)])
	}
	l.Release()
	if reads, _, _ := s.all(); reads != 1 {
		t.Errorf("%d reads of the source", reads)
	}
	if u := wantDisk(t, p); u.Objects != 1 {
		t.Errorf("%d objects", u.Objects)
	}
}

func TestUnpackDamaged(t *testing.T) {
	dir := t.TempDir()
	s := small("damaged", 5000)
	p := pool(t, dir, Options{})
	l := p.Prefetch(s, "a")
	wantBytes(t, l, s, 0)
	p.mu.Lock()
	place := l.it.entry.Place
	p.mu.Unlock()
	damage(t, p.store.Path(place), place.Offset+17)
	l.Release()
	l = p.PrefetchFile(s, "a")
	defer l.Release()
	must(t, l.WaitStaged(within(t, time.Minute)))
	p.mu.Lock()
	packed := l.it.entry.Place.Packed()
	p.mu.Unlock()
	wantBytes(t, l, s, 0)
	if reads, _, _ := s.count("a"); packed || reads != 2 || p.Counters().Damaged != 1 {
		t.Errorf("packed: %v, %d reads, %+v", packed, reads, p.Counters())
	}
	wantDisk(t, p)
}
