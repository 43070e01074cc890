//go:build linux

package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/ndarray"
)

// inMemoryAndNamed runs a test for arrays of both kinds.
func inMemoryAndNamed(t *testing.T, f func(t *testing.T, s *Pool)) {
	for _, place := range []Place{Memfd, Named} {
		t.Run(place.String(), func(t *testing.T) {
			isolate(t)
			f(t, newSharer(t, &Options{Place: place}))
		})
	}
}

func TestWritesOfOtherProcessesAreSeen(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		a := must(s.New(ndarray.Uint8, 300, 1000))(t)
		v := must(Slice[uint8](a))(t)
		for i, x := range v {
			if x != 0 {
				t.Fatalf("element %d of a new array is %d", i, x)
			}
		}
		for _, mode := range []Mode{"r+", "w+"} {
			v[0] = 7
			hold(t, must(a.Handle())(t), mode).leave(t)
			if v[0] != 8 {
				t.Errorf("after another process wrote (%s) the element is %d", mode, v[0])
			}
		}
	})
}

func TestSealRefusesWriters(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		a := must(writable(s, numbers(100_000, 1)))(t)
		h := must(a.Handle())(t)
		p := hold(t, h, ReadWrite)
		if err := a.Seal(); !errors.Is(err, ErrWriters) {
			t.Fatalf("sealed under a writer: %v", err)
		}
		p.leave(t)
		check(t, a.Seal())
		check(t, a.Seal())
		other := newSharer(t, nil)
		for _, mode := range []Mode{"r+", "w+"} {
			if _, err := other.Attach(h, mode); !errors.Is(err, errSealed) {
				t.Errorf("%s of a sealed array: %v", mode, err)
			}
			if _, err := s.Attach(h, mode); !errors.Is(err, errSealed) {
				t.Errorf("%s of an own sealed array: %v", mode, err)
			}
		}
		r := must(other.Attach(h, ReadOnly))(t)
		if r.digest() != a.digest() {
			t.Error("it reads otherwise")
		}
		if err := r.Seal(); err == nil {
			t.Error("a reader sealed it")
		}
	})
}

func TestSealAfterClosedWriter(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		other := newSharer(t, nil)
		a := must(s.New(ndarray.Int16, 100, 1000))(t)
		h := must(a.Handle())(t)
		w := must(other.Attach(h, ReadWrite))(t)
		if err := a.Seal(); !errors.Is(err, ErrWriters) {
			t.Fatalf("sealed under a writer: %v", err)
		}
		// Nothing has changed by that.
		check(t, must(newSharer(t, nil).Attach(h, ReadWrite))(t).Close())
		check(t, w.Close())
		check(t, a.Seal())
	})
}

func TestACopyOnWriteIsOnesOwn(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		src := numbers(200_000, 2)
		a := must(s.Put(src))(t)
		h := must(a.Handle())(t)
		for _, from := range []*Pool{s, newSharer(t, nil)} {
			c := must(from.Attach(h, CopyOnWrite))(t)
			v := must(Slice[byte](c))(t)
			v[0]++
			if must(Slice[byte](a))(t)[0] != src[0] {
				t.Fatal("the array was written to")
			}
			if d := must(from.Attach(h, CopyOnWrite))(t); must(Slice[byte](d))(t)[0] != src[0] {
				t.Error("a second copy sees what was written to the first")
			}
			if _, err := c.Handle(); !errors.Is(err, errNotShared) {
				t.Errorf("a handle of a private copy: %v", err)
			}
			if _, err := from.HandleOf(c.View()); !errors.Is(err, errNotShared) {
				t.Errorf("a handle of a view of a private copy: %v", err)
			}
			// Put again, it is what it is now.
			if p := must(from.Put(c))(t); must(Slice[byte](p))(t)[0] != v[0] {
				t.Error("the copy was put as it was before the change")
			}
			check(t, c.Close())
		}
	})
}

func TestAnUnknownModeIsRefused(t *testing.T) {
	s := newSharer(t, nil)
	a := must(s.Put([]int8{1}))(t)
	for _, m := range []Mode{"w", "rw", "R", "r +"} {
		if _, err := s.Attach(must(a.Handle())(t), m); err == nil {
			t.Errorf("mode %q", m)
		}
	}
}

func TestAnArrayIsMappedOnceAndKeptForAWhile(t *testing.T) {
	s, other := newSharer(t, nil), newSharer(t, nil)
	a := must(s.Put(numbers(1<<20, 3)))(t)
	h := must(a.Handle())(t)
	one := must(other.Attach(h, ReadOnly))(t)
	two := must(other.Attach(h, ReadOnly))(t)
	if one.obj != two.obj {
		t.Error("it was mapped twice")
	}
	part := must(other.HandleOf(two.View().At(5)))(t)
	three := must(other.Attach(part, ReadOnly))(t)
	if three.obj != one.obj {
		t.Error("a view of it was mapped by itself")
	}
	for _, x := range []*Array{one, two, three, three} {
		check(t, x.Close())
	}
	if other.reg.idle != 1 {
		t.Errorf("%d mappings are kept", other.reg.idle)
	}
	if again := must(other.Attach(h, ReadOnly))(t); again.obj != one.obj {
		t.Error("the mapping was not kept")
	}
	for range maxIdle + 20 {
		b := must(s.Put(numbers(arenaMax+1, 3)))(t)
		check(t, must(other.Attach(must(b.Handle())(t), ReadOnly))(t).Close())
	}
	if other.reg.idle > maxIdle {
		t.Errorf("%d mappings are kept", other.reg.idle)
	}
}

func TestFreedArrayIsStale(t *testing.T) {
	inMemoryAndNamed(t, func(t *testing.T, s *Pool) {
		other := newSharer(t, nil)
		for _, n := range []int{10, 1 << 20} {
			a := must(s.Put(numbers(n, 4)))(t)
			h := must(a.Handle())(t)
			b := must(other.Attach(h, ReadOnly))(t)
			sum := b.digest()
			idle := must(s.Put(numbers(n, 5)))(t)
			hi := must(idle.Handle())(t)
			check(t, must(other.Attach(hi, ReadOnly))(t).Close())
			check(t, a.Close())
			check(t, idle.Close())
			if b.digest() != sum {
				t.Error("it changed under its reader")
			}
			for _, from := range []*Pool{s, other, newSharer(t, nil)} {
				for _, h := range []Handle{h, hi} {
					if _, err := from.Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
						t.Errorf("a freed array of %d bytes: %v", n, err)
					}
				}
			}
			check(t, b.Close())
			if _, err := a.Handle(); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if _, err := s.Put(a); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	})
}

func TestASharedArrayIsNeverCopiedAgain(t *testing.T) {
	isolate(t)
	s, other := newSharer(t, nil), newSharer(t, nil)
	for _, n := range []int{100, 1 << 20} {
		a := must(s.Put(numbers(n, 4)))(t)
		b := must(other.Attach(must(a.Handle())(t), ReadOnly))(t)
		// A view of what was attached leads to the same memory, from here and from there.
		v := b.View()
		reversed := &ndarray.Array{Type: v.Type, Shape: []int{n}, Strides: []int{-1}, Offset: n - 1, Data: v.Data}
		p := must(other.Put(reversed))(t)
		if p.obj != b.obj {
			t.Error("it was copied")
		}
		h := must(other.Pack(reversed))(t)
		if diff := cmp.Diff([]string{fmt.Sprintf("%x", digestOf(reversed))}, elsewhere(t, ReadOnly, h)); diff != "" {
			t.Error(diff)
		}
		if q := must(s.Put(a.View()))(t); q.obj != a.obj {
			t.Error("it was copied by its maker")
		}
		if isInline(must(s.Pack(a))(t)) {
			t.Error("a shared array was put into its handle")
		}
	}
}

func TestUserFilesBelowRootsOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	name, link := userFiles(t, dir)
	s := newSharer(t, nil)
	a := must(s.OpenFile(link))(t)
	h := must(a.Handle())(t)
	if p, _, err := a.File(); err != nil || p != name {
		t.Errorf("%s, %v", p, err)
	}
	if _, err := newSharer(t, nil).Attach(h, ReadOnly); !errors.Is(err, errOutsideRoots) {
		t.Errorf("without roots: %v", err)
	}
	for _, root := range []string{filepath.Dir(link), dir[:len(dir)-1], filepath.Join(dir, "missing")} {
		_, err := newSharer(t, &Options{Roots: []string{root}}).Attach(h, ReadOnly)
		if !errors.Is(err, errOutsideRoots) {
			t.Errorf("below %s: %v", root, err)
		}
	}
	other := newSharer(t, &Options{Roots: []string{"/nowhere", dir}})
	b := must(other.Attach(h, ReadOnly))(t)
	if a.digest() != b.digest() {
		t.Error("it reads otherwise")
	}
	if _, err := other.Attach(h, ReadWrite); !errors.Is(err, errSealed) {
		t.Errorf("r+: %v", err)
	}
	c := must(other.Attach(h, CopyOnWrite))(t)
	must(Slice[float32](c))(t)[0]++
	if a.digest() != b.digest() {
		t.Error("the file was written to")
	}
	check(t, touch(name))
	if _, err := newSharer(t, &Options{Roots: []string{dir}}).Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
		t.Errorf("a changed file: %v", err)
	}
}

func TestMissingAndRemovedUserFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	name, _ := userFiles(t, dir)
	s := newSharer(t, nil)
	for _, path := range []string{filepath.Join(dir, "none.npy"), filepath.Join(dir, "none", "a.npy")} {
		if _, err := s.OpenFile(path); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrStale) {
			t.Errorf("%s never existed: %v", path, err)
		}
	}
	h := must(must(s.OpenFile(name))(t).Handle())(t)
	check(t, os.Remove(name))
	if _, err := newSharer(t, &Options{Roots: []string{dir}}).Attach(h, ReadOnly); !errors.Is(err, ErrStale) {
		t.Errorf("a file that was removed: %v", err)
	}
}
