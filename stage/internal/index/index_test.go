//go:build linux

package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// atPoint runs f at the first pass of a point while g runs.
func atPoint(t testing.TB, point string, f, g func()) {
	t.Helper()
	passed := false
	fault.Set(func(p string) error {
		if p == point && !passed {
			passed = true
			f()
		}
		return nil
	})
	defer fault.Set(nil)
	g()
	if !passed {
		t.Errorf("%s was not passed", point)
	}
}

// rmProc removes the file of a process behind its back.
func rmProc(b *testIndex, name string) error { return os.Remove(filepath.Join(b.path, "procs", name)) }

func TestGrowWithOneBucket(t *testing.T) {
	b := open(t)
	other := b.another(t)
	n := 6*chunkCount + 5
	in := 3000 // of them in one bucket
	if testing.Short() {
		n, in = 2*chunkCount+5, 500
	}
	all := make([]Key, n)
	for k := range all {
		all[k] = keyOf(k)
		if k < in {
			binary.LittleEndian.PutUint32(all[k][8:], 77+buckets*uint32(k%1000))
		}
	}
	objects := map[Key]Object{}
	for k, key := range all {
		o := object(k, 0)
		o.Key = key
		l := b
		if k%2 == 0 {
			l = other
		}
		e := ok(l.publish(o, limits))(t)
		objects[key] = e.Object
		e.Unpin()
	}
	wantTaken(t, b, int64(n*unit), int64(n))
	check := func(b *testIndex, keep func(k int) bool) {
		t.Helper()
		for k, key := range all {
			e := ok(b.Find(key))(t)
			switch {
			case (e != nil) != keep(k):
				t.Fatalf("object %d of %d is found: %v", k, n, e != nil)
			case e != nil:
				if e.Place != objects[key].Place || e.Name != objects[key].Name {
					t.Fatalf("instead of object %d there is %+v", k, e.Object)
				}
				e.Unpin()
			}
		}
		wantIndex(t, b)
	}
	every := func(int) bool { return true }
	check(b, every)
	check(b.again(t), every) // not alone: other is still there
	other.unclean()
	b = other.again(t) // neither: the one before is
	check(b, every)
	// Some go, in another order than they came, and their records are used again.
	for _, k := range rand.Perm(n) {
		if k%3 == 0 {
			if !ok(ok(b.Find(all[k]))(t).Drop())(t) {
				t.Fatalf("object %d is not dropped", k)
			}
		}
	}
	check(b, func(k int) bool { return k%3 != 0 })
	next := b.h.next.Load()
	b.add(t, span(n, n+n/3)...)
	if b.h.next.Load() != next {
		t.Errorf("%d records are used, where %d were", b.h.next.Load(), next)
	}
	check(b, func(k int) bool { return k%3 != 0 })
}

func TestReopenAndRebuild(t *testing.T) {
	b := open(t)
	b.add(t, span(1, 1000)...)
	for n := 1; n <= 1000; n += 3 {
		b.find(t, n).Drop()
	}
	want := b.has(t, span(1, 1000)...)
	for i := range 4 {
		if i%2 == 1 {
			b.unclean()
		}
		tidied := b.s.tidy1
		b = b.again(t)
		if checked := b.s.tidy1 - tidied; checked != i%2 {
			t.Errorf("checked %d times", checked)
		}
		wantHas(t, b, span(1, 1000), want)
		wantTaken(t, b, int64((len(want)+i)*unit), int64(len(want)+i))
		wantIndex(t, b)
		b.add(t, 2000+i)
	}
}

func TestRebuildDropsIncomplete(t *testing.T) {
	t.Run("with checksums", func(t *testing.T) { testTheCheckDropsWhatIsNotWhole(t, true, []int{14, 16, 20}) })
	t.Run("of earlier versions", func(t *testing.T) { testTheCheckDropsWhatIsNotWhole(t, false, []int{13, 16, 20}) })
}

func testTheCheckDropsWhatIsNotWhole(t *testing.T, sums bool, want []int) {
	b := open(t)
	long := strings.Repeat("x", 1000)
	for n := 1; n <= 20; n++ {
		o := object(n, 0)
		o.Name += long
		ok(b.publish(o, limits))(t).Unpin()
	}
	edit := func(n int, f func(i uint32, r *record)) {
		i, r := recordOf(b, n)
		if !sums {
			r.seq.Store(r.seq.Load() & (1<<sumShift - 1))
		}
		f(i, r)
	}
	more := func(r *record, k int) *record {
		for range k {
			r = b.record(r.more.Load())
		}
		return r
	}
	// its bytes are gone
	edit(1, func(_ uint32, r *record) { delete(b.s.there, r.place.ID) })
	edit(2, func(_ uint32, r *record) { r.key = Key{} })  // no key
	edit(3, func(_ uint32, r *record) { r.place.ID = 0 }) // nowhere
	// a number that was not given out
	edit(4, func(_ uint32, r *record) { r.place.ID = b.h.place.Load() + 1 })
	// less than nothing
	edit(5, func(_ uint32, r *record) { r.charge = -unit })
	// too much text
	edit(6, func(_ uint32, r *record) { r.length = 1 << 31 })
	// a tag that is longer than the text
	edit(7, func(_ uint32, r *record) { r.tag = r.length + 1 })
	edit(8, func(_ uint32, r *record) { r.more.Store(0) }) // the text is cut
	// it continues at a high offset
	edit(9, func(_ uint32, r *record) { more(r, 2).more.Store(1 << 30) })
	// it goes on in what is free
	edit(10, func(_ uint32, r *record) { more(r, 1).seq.Store(0) })
	// it goes on in a circle
	edit(11, func(i uint32, r *record) { more(r, 1).more.Store(r.more.Load()) })
	// more than there should be
	edit(12, func(_ uint32, r *record) { r.length = 10 })
	// in another's: one of both goes
	edit(13, func(_ uint32, r *record) { _, o := recordOf(b, 14); r.more.Store(o.more.Load()) })
	// in another object
	edit(15, func(_ uint32, r *record) { i, _ := recordOf(b, 16); more(r, 1).more.Store(i) })
	edit(17, func(_ uint32, r *record) { *r = record{} })                                            // zeros
	edit(18, func(_ uint32, r *record) { r.seq.Store(r.seq.Load()&^(1<<stateBits-1) | stateStale) }) // replaced
	// no state that there is
	edit(19, func(_ uint32, r *record) { r.seq.Store(r.seq.Load()&^(1<<stateBits-1) | 99) })
	b.unclean()
	b.s.put(Object{Place: Place{ID: 1000}}) // and one that the index does not know
	b = b.again(t)
	wantHas(t, b, span(1, 20), want)
	wantTaken(t, b, 3*unit, 3)
	wantIndex(t, b)
	b.add(t, span(1, 200)...) // all records are used again
	wantHas(t, b, span(1, 200), span(1, 200))
	wantIndex(t, b)
}

func TestRebuildDuplicateKey(t *testing.T) {
	for _, first := range []bool{true, false} {
		b := open(t)
		long := strings.Repeat("x", 1000)
		for i := range 2 {
			o := object(1, i)
			o.Name = long
			o.Checked = at1970(100)
			if first == (i == 0) {
				o.Checked = at1970(200)
			}
			e := ok(b.publish(o, limits))(t)
			e.Unpin()
			// That the first was replaced has not come to the disk.
			defer func() { _ = e }()
		}
		for i := uint32(1); i < b.h.next.Load(); i++ {
			if r := b.record(i); byte(r.seq.Load()) == stateStale {
				r.seq.Store(r.seq.Load()&^(1<<stateBits-1) | stateValid)
			}
		}
		b.unclean()
		b = b.again(t)
		want := 1
		if first {
			want = 0
		}
		if e := b.find(t, 1); e.Version != versionOf(want) {
			t.Errorf("the newer one is number %d, and the other is found", want)
		}
		wantTaken(t, b, unit, 1)
		wantIndex(t, b)
	}
}

func TestInvalidIndex(t *testing.T) {
	write := func(at int64, b ...byte) func(path string) error {
		return func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt(b, at)
				err = errors.Join(err, f.Close())
			}
			return err
		}
	}
	cut := func(n int64) func(path string) error { return func(path string) error { return os.Truncate(path, n) } }
	for name, damage := range map[string]func(path string) error{
		"missing":                os.Remove,
		"empty":                  cut(0),
		"cut in the header":      cut(100),
		"cut in the buckets":     cut(recordsAt - 1),
		"cut before the records": cut(recordsAt),
		"cut in the records":     cut(recordsAt + chunkSize - 1),
		"all zeros": func(path string) error {
			return errors.Join(os.Truncate(path, 0), os.Truncate(path, recordsAt+chunkSize))
		},
		"of an older version": write(0, []byte("leatstg0")...),
		"of another program": func(path string) error {
			return os.WriteFile(path,
				[]byte(strings.Repeat("hello\n", 1<<18)), 0o600)
		},
		"of other records":        write(8, 128),
		"of other buckets":        write(16, 1),
		"too many records":        write(260, 0xff, 0xff, 0xff, 0xff),
		"more than it may have":   write(260, 0, 0, 0, 0x80),
		"half a chunk of records": write(260, 1, 8),
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			if off := int(uintptrOf(&b.h.capacity) - uintptrOf(b.h)); off != 260 {
				t.Fatalf("the test writes at 260, the capacity lies at %d", off)
			}
			b.add(t, 1, 2, 3)
			b.close(t)
			must(t, damage(b.index()))
			b = openIn(t, b.path, b.s)
			wantHas(t, b, []int{1, 2, 3}, nil)
			wantTaken(t, b, 0, 0)
			wantIndex(t, b) // what lay there is gone
			b.add(t, span(1, 5000)...)
			b = b.again(t)
			wantHas(t, b, span(1, 5000), span(1, 5000))
			wantIndex(t, b)
		})
	}
}

func TestInvalidHeader(t *testing.T) {
	for name, damage := range map[string]func(b *testIndex){
		"no next record":             func(b *testIndex) { b.h.next.Store(0) },
		"a next record out of range": func(b *testIndex) { b.h.next.Store(1 << 31) },
		"less than nothing in bytes": func(b *testIndex) { b.h.bytes.Store(-1) },
		"less than nothing in files": func(b *testIndex) { b.h.files.Store(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.add(t, 1, 2, 3)
			next := b.h.next.Load()
			damage(b)
			b = b.again(t)
			if b.h.next.Load() != 0 && b.s.tidy1 < 2 {
				t.Error("not checked")
			}
			if b.h.next.Load() < next { // what lay behind it is lost
				wantHas(t, b, []int{1, 2, 3}, nil)
			} else {
				wantHas(t, b, []int{1, 2, 3}, []int{1, 2, 3})
			}
			wantIndex(t, b)
			b.add(t, 4)
			wantHas(t, b, []int{4}, []int{4})
		})
	}
}

func TestPlaceNumbersContinue(t *testing.T) {
	b := openIn(t, filepath.Join(inMemory(t), "stage"), newStore())
	first := ok(b.NextPlace())(t)
	must(t, b.Close())
	must(t, os.Remove(b.dir.FilePath("index"))) // as damaged
	b = b.again(t)
	second := ok(b.NextPlace())(t)
	if first < 1000 || second < 1000 || max(first, second)-min(first, second) < 1000 {
		t.Errorf("two indexes begin with places %d and %d", first, second)
	}
	b.h.boot[3]++
	b = b.again(t)
	if n := ok(b.NextPlace())(t); n < second+1<<31 {
		t.Errorf("after another start of the machine place %d follows %d", n, second)
	}
}

func TestDamagedRecord(t *testing.T) {
	for name, damage := range map[string]func(r *record){
		"key":     func(r *record) { r.key[0] ^= 1 },
		"version": func(r *record) { r.version[7] ^= 1 },
		"size":    func(r *record) { r.size ^= 1 },
		"charge":  func(r *record) { r.charge ^= 1 << 40 },
		"number":  func(r *record) { r.place.ID ^= 1 },
		"offset":  func(r *record) { r.place.Offset ^= 4096 },
		"crc":     func(r *record) { r.crc ^= 1 },
		"name":    func(r *record) { r.text[0] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.add(t, 1, 2, 3)
			_, r := recordOf(b, 2)
			damage(r)
			wantHas(t, b, []int{1, 2, 3}, []int{1, 3})
			must(t, b.Each(func(o Object) bool {
				if o.Key != keyOf(1) && o.Key != keyOf(3) {
					t.Errorf("the damaged object is listed: %+v", o)
				}
				return true
			}))
			gone, err := b.Evict(func() bool { return false })
			if gone != 2 || err != nil {
				t.Errorf("evicted %d objects, %v", gone, err)
			}
			wantTaken(t, b, unit, 1)
			b.add(t, 2, 4)
			wantHas(t, b, []int{2, 4}, []int{2, 4})
			b = b.again(t)
			wantHas(t, b, []int{2, 4}, []int{2, 4})
			wantTaken(t, b, 2*unit, 2)
			wantIndex(t, b)
		})
	}
}

func TestReboot(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	b.find(t, 1).SetSound()
	b.h.boot[3]++
	delete(b.s.there, 2) // what was not flushed is missing
	b = b.again(t)
	wantHas(t, b, []int{1, 2}, []int{1})
	e := b.find(t, 1)
	if e.Sound {
		t.Error("it is taken for sound")
	}
	e.SetSound()
	b.add(t, 3)
	b = b.again(t) // the same start
	if e := b.find(t, 1); !e.Sound {
		t.Error("not sound after the check")
	}
	if e := b.find(t, 3); !e.Sound {
		t.Error("what was written since is not sound")
	}
	wantIndex(t, b)
}

func TestForeignIndex(t *testing.T) {
	for name, make1 := range map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":      func(path string) error { return os.Symlink("/dev/null", path) },
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"another's": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600),
				os.Chown(path, 12345, -1))
		},
		"procs, a file": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), "procs"), nil,
				0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another's" && os.Geteuid() != 0 {
				t.Skip("only root can make things that belong to others")
			}
			path := filepath.Join(inMemory(t), "stage")
			must(t, ok(lockfile.OpenRoot(path, ""))(t).Close())
			must(t, make1(filepath.Join(path, "index")))
			files, maps := openFiles(t), mapsOf(t, path)
			_, err := tryOpen(t, path, newStore())
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("the error is %v", err)
			}
			if after := openFiles(t); after != files {
				t.Errorf("%d files are open, %d were", after, files)
			}
			if after := mapsOf(t, path); after != maps {
				t.Errorf("%d mappings, %d were", after, maps)
			}
		})
	}
}

func TestTruncatedWhileOpen(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	e := b.find(t, 1)
	must(t, os.Truncate(b.index(), 0))
	if _, err := tryOpen(t, b.path, b.s); !errors.Is(err, ErrBroken) {
		t.Errorf("another that opens it: %v", err)
	}
	_, err := b.Find(keyOf(1))
	wantErr(t, err, ErrBroken)
	if !b.Broken() {
		t.Error("not broken")
	}
	// Nothing panics then.
	e.SetChecked(at1970(1))
	e.SetSound()
	e.Discard()
	if _, err := e.Drop(); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	_, taken, err := b.Reserve(unit, limits)
	if wantErr(t, err, ErrBroken); taken {
		t.Error("taken")
	}
	_, err = b.Evict(func() bool { return false })
	wantErr(t, err, ErrBroken)
	wantErr(t, b.Each(func(Object) bool { return true }), ErrBroken)
	if err := b.Close(); err != nil && !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	must(t, b.d.Close())
	b.d = nil
	b = openIn(t, b.path, b.s) // alone: anew
	wantTaken(t, b, 0, 0)
	b.add(t, 1)
	wantIndex(t, b)
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(inMemory(t), "stage")
	failAt("index.allocate", func() {
		files := openFiles(t)
		_, err := tryOpen(t, path, newStore())
		if wantErr(t, err, errTest); !strings.Contains(fmt.Sprint(err), path) {
			t.Error(err)
		}
		if after := openFiles(t); after != files {
			t.Errorf("%d files are open, %d were", after, files)
		}
	})
	b := openIn(t, path, newStore())
	failAt("index.allocate", func() {
		_, err := b.publish(object(1, 0), limits)
		wantErr(t, err, ErrFull)
		wantErr(t, err, errTest)
	})
	wantTaken(t, b, 0, 0)
	b.add(t, span(1, chunkCount-3)...)
	// In the middle of a long text.
	o := object(chunkCount, 0)
	o.Name = strings.Repeat("x", 3000)
	failAt("index.allocate", func() {
		_, err := b.publish(o, limits)
		wantErr(t, err, ErrFull)
	})
	wantIndex(t, b)
	ok(b.publish(o, limits))(t).Unpin()
	wantIndex(t, b)
	// For the file of a process that comes.
	failAt("index.allocate", func() {
		_, err := tryOpen(t, path, b.s)
		wantErr(t, err, errTest)
	})
	wantIndex(t, b)
}

func TestFailedRebuild(t *testing.T) {
	b := open(t)
	b.add(t, 1)
	b.unclean()
	b.close(t)
	b.s.fail = errTest
	for range 2 {
		_, err := tryOpen(t, b.path, b.s)
		wantErr(t, err, errTest)
	}
	b.s.fail = nil
	b = openIn(t, b.path, b.s)
	wantHas(t, b, []int{1}, []int{1})
	wantIndex(t, b)
}

func TestClose(t *testing.T) {
	path := filepath.Join(inMemory(t), "stage")
	d := ok(lockfile.OpenRoot(path, ""))(t)
	files := openFiles(t)
	s := newStore()
	l := ok(Open(context.Background(), d, s.free, s.keep, s.tidy))(t)
	b := &testIndex{l, s, path, d}
	other := b.another(t)
	b.add(t, 1, 2, 3)
	b.find(t, 1)
	other.find(t, 2)
	_, _, err := b.Reserve(unit, limits)
	must(t, err)
	b.evict(t, 1)
	must(t, l.Close())
	must(t, l.Close())
	wantTaken(t, other, 2*unit, 2)
	other.close(t)
	if after := openFiles(t); after != files {
		t.Errorf("%d files are open, %d were", after, files)
	}
	if maps := mapsOf(t, path); maps != 0 {
		t.Errorf("%d mappings are left", maps)
	}
	must(t, d.Close())
	if names := ok(os.ReadDir(filepath.Join(path, "procs")))(t); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

func TestStrayFilesInProcs(t *testing.T) {
	b := open(t)
	b.add(t, 1, 2)
	procs := filepath.Join(b.path, "procs")
	must(t, os.Mkdir(filepath.Join(procs, "folder"), 0o700))
	must(t, unix.Mkfifo(filepath.Join(procs, "pipe"), 0o600))
	must(t, os.Symlink("/etc/passwd", filepath.Join(procs, "link")))
	must(t, os.WriteFile(filepath.Join(procs, "short"), []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(procs, ".new-x"), []byte("x"), 0o600))
	// As large as one, and with numbers in it that would free an object's bytes.
	odd := make([]byte, procSize)
	for i := copiesAt; i < pinsAt; i++ {
		odd[i] = 1
	}
	must(t, os.WriteFile(filepath.Join(procs, "odd"), odd, 0o600))
	b.h.joins.Add(1)
	if gone := b.evict(t, 1); gone != 1 {
		t.Errorf("%d were evicted", gone)
	}
	b.another(t).find(t, 2)
	b = b.again(t)
	wantHas(t, b, []int{2}, []int{2})
	wantTaken(t, b, unit, 1)
	for _, name := range []string{"short", "odd", ".new-x"} {
		if exists(filepath.Join(procs, name)) {
			t.Errorf("%s is still there", name)
		}
	}
}
