//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"leat/internal/proctest"
)

// replacedLimit is space for one version of an object of 6 MiB, not for two.
const replacedLimit = 10 * mib

func replacedOptions(keep Keep) Options {
	return Options{MaxBytes: replacedLimit, RangeBytes: mib, Keep: keep}
}

// holdChild stages version 0 of an object and reads it until it is killed.
func holdChild(args []string) error {
	dir := args[0]
	p, err := Open(context.Background(), dir, quick(replacedOptions(LRU)))
	if err != nil {
		return err
	}
	s := newSource("replaced").put("a", object{size: 6 * mib})
	l := p.Prefetch(s, "a")
	r, err := l.Open(context.Background())
	if err != nil {
		return err
	}
	want := content("a", 0, 6*mib)
	b := make([]byte, 6*mib)
	for n := 0; ; n++ {
		if _, err := r.ReadAt(b, 0); err != nil || !bytes.Equal(b, want) {
			return fmt.Errorf("the old version is not as it was: %w", err)
		}
		if n == 0 {
			if err := os.WriteFile(filepath.Join(dir, "held"), nil, 0o600); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
		runtime.KeepAlive(l)
	}
}

// TestReplacedObjectInUse replaces an object whose old version another process, or another pool,
// still reads. The old version stays counted and readable; the new one is read from the source
// while both do not fit, and is staged as soon as the old one is no longer in use.
func TestReplacedObjectInUse(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{LRU, Drop, Epochs} {
		for _, how := range []string{"closed", "killed"} {
			t.Run(fmt.Sprint(how, " keep ", keep), func(t *testing.T) {
				t.Parallel()
				dir := inMemory(t)
				s := newSource("replaced").put("a", object{size: 6 * mib})
				var end func()
				if how == "killed" {
					c := proctest.New("hold", dir).Start(t)
					soon(t, "the child reading", func() bool {
						_, err := os.Stat(filepath.Join(dir, "held"))
						return err == nil
					})
					end = func() {
						c.Kill()
						if killed, out, err := c.Wait(); !killed {
							t.Errorf("the child ended: %v\n%s", err, out)
						}
					}
				} else {
					old := ok(Open(context.Background(), dir, quick(replacedOptions(LRU))))(t)
					l := old.Prefetch(s, "a")
					r := ok(l.Open(t.Context()))(t)
					end = func() {
						b := make([]byte, 6*mib)
						if _, err := r.ReadAt(b, 0); err != nil || !bytes.Equal(b, content("a", 0, 6*mib)) {
							t.Errorf("the old version is not as it was: %v", err)
						}
						must(t, r.Close())
						l.Release()
						must(t, old.Close())
					}
				}
				s.put("a", object{size: 6 * mib, version: 1})
				p := pool(t, dir, replacedOptions(keep))
				l := p.Prefetch(s, "a")
				defer l.Release()
				wantErr(t, l.WaitStaged(within(t, time.Minute)), ErrNoSpace)
				wantBytes(t, l, s, 1)
				if u := wantDisk(t, p); u.Bytes != 6*mib || u.Objects != 1 {
					t.Errorf("%d bytes of %d objects are counted", u.Bytes, u.Objects)
				}
				end()
				l.Release()
				l = p.Prefetch(s, "a")
				defer l.Release()
				soon(t, "the new version being staged", func() bool {
					err := l.WaitStaged(within(t, time.Minute))
					if err != nil && !errors.Is(err, ErrNoSpace) {
						t.Fatal(err)
					}
					return err == nil
				})
				wantBytes(t, l, s, 1)
				if u := wantDisk(t, p); u.Bytes != 6*mib || u.Objects != 1 {
					t.Errorf("at the end %d bytes of %d objects are counted", u.Bytes, u.Objects)
				}
			})
		}
	}
}

// TestReplacedObjectIsCounted stages a new version next to the old one, which is in use.
func TestReplacedObjectIsCounted(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{100 * kib, 3 * mib} {
		for _, how := range []string{"gc", "old", "space"} {
			t.Run(fmt.Sprint(size, " ", how), func(t *testing.T) {
				t.Parallel()
				dir := inMemory(t)
				s := newSource("counted").put("a", object{size: size}).put("b", object{size: 2 * size})
				o := Options{MaxBytes: 2*size + 2*4096}
				old := pool(t, dir, o)
				l0 := old.Prefetch(s, "a")
				wantBytes(t, l0, s, 0)
				s.put("a", object{size: size, version: 1})
				p := pool(t, dir, o)
				l1 := p.Prefetch(s, "a")
				wantBytes(t, l1, s, 1)
				if stateOf(l1) != staged {
					t.Errorf("the new version is %s", stateNames[stateOf(l1)])
				}
				u := wantDisk(t, p) // both versions
				if u.Objects != 2 || u.Bytes < 2*size {
					t.Errorf("%d bytes of %d objects are counted", u.Bytes, u.Objects)
				}
				listed := 0
				for _, err := range p.Objects() {
					must(t, err)
					listed++
				}
				if listed != 1 {
					t.Errorf("%d objects are listed, expected the new version alone", listed)
				}
				// nothing frees the old version while it is in use
				_ = ok(p.Trim(t.Context(), 0))(t)
				_ = ok(p.RemoveUnused(t.Context(), time.Now().Add(time.Hour)))(t)
				r := ok(l0.Open(t.Context()))(t)
				b := make([]byte, size)
				if _, err := r.ReadAt(b, 0); err != nil || !bytes.Equal(b, content("a", 0, size)) {
					t.Errorf("the old version: %v", err)
				}
				must(t, r.Close())
				if now := wantDisk(t, p); now.Bytes != u.Bytes {
					t.Errorf("%d bytes are counted, before %d", now.Bytes, u.Bytes)
				}
				l0.Release()
				wantBytes(t, l1, s, 1)
				switch how {
				case "gc":
					_ = ok(p.Trim(t.Context(), u.Bytes/2))(t)
				case "old":
					_ = ok(p.RemoveUnused(t.Context(), time.Now().Add(-time.Hour)))(t)
				case "space":
					l1.Release()
					l := p.Prefetch(s, "b")
					defer l.Release()
					must(t, l.WaitStaged(within(t, time.Minute)))
				}
				now := wantDisk(t, p)
				if now.Objects != 1 {
					t.Errorf("%d bytes of %d objects are counted after it was freed", now.Bytes, now.Objects)
				}
			})
		}
	}
}

// TestDropDuringCopyOfNewVersion releases an old version for good while the new one is copied.
func TestDropDuringCopyOfNewVersion(t *testing.T) {
	t.Parallel()
	dir := inMemory(t)
	s := newSource("drop").put("a", object{size: 6 * mib})
	o := Options{RangeBytes: mib, Keep: Drop}
	old := pool(t, dir, o)
	l0 := old.Prefetch(s, "a")
	wantBytes(t, l0, s, 0)
	middle := make(chan struct{})
	s.put("a", object{size: 6 * mib, version: 1, middle: middle})
	p := pool(t, dir, o)
	l1 := p.Prefetch(s, "a")
	soon(t, "the copy being under way", func() bool { _, _, n := s.count("a"); return n > 6*mib })
	l0.Release()
	if u := ok(p.Usage())(t); u.Objects != 2 {
		t.Errorf("%d objects during the copy", u.Objects)
	}
	close(middle)
	wantBytes(t, l1, s, 1)
	if u := wantDisk(t, p); u.Objects != 1 {
		t.Errorf("%d objects after the copy", u.Objects)
	}
	l1.Release()
	if u := wantDisk(t, p); u.Objects != 0 {
		t.Errorf("%d objects at the end", u.Objects)
	}
}
