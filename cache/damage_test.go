//go:build linux

package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pfio: an entry that is wrong stays wrong.
func TestDamagedRecord(t *testing.T) {
	eachKind(t, func(t *testing.T, o *Options) {
		for _, at := range []int64{0, 8, 16, 20, 24, 32, 60, recordHead, recordHead + 4} {
			if o.Verify == VerifyNever && at >= recordHead {
				continue // that is what it means
			}
			c := create(t, 10, o)
			put(t, c, 1, "entry")
			put(t, c, 2, "other")
			reader := attachTo(t, c, &Options{Verify: o.Verify})
			damage(t, c, slotOf(t, c, 1)+at)
			wantMiss(t, reader, 1)
			wantEntry(t, reader, 2, "other")
			if rep := check(t, c); rep.OK() || rep.Bad != 1 || rep.FilledSlots != 1 || rep.FirstBad[0] != 1 {
				t.Errorf("byte %d: %+v", at, rep)
			}
			if !put(t, reader, 1, "mended") || put(t, reader, 1, "again") {
				t.Errorf("byte %d: not mended, or twice", at)
			}
			wantEntry(t, reader, 1, "mended")
			wantEntry(t, c, 1, "mended")
			if s := stats(t, c); s.Repaired != 1 || s.Bad == 0 {
				t.Errorf("%+v", s)
			}
			if rep := check(t, c); !rep.OK() || rep.FilledSlots != 2 || rep.DeadBytes != 128 {
				t.Errorf("byte %d: %+v", at, rep)
			}
		}
	})
}

func TestVerifyOption(t *testing.T) {
	for verify, sees := range map[Verify]bool{VerifyFirst: false, VerifyAlways: true, VerifyNever: false} {
		c := create(t, 10, &Options{Verify: verify})
		put(t, c, 1, "entry")
		wantEntry(t, c, 1, "entry")
		damage(t, c, slotOf(t, c, 1)+recordHead)
		if _, err := c.Get(1); errors.Is(err, ErrMiss) != sees {
			t.Errorf("%d, touched before: %v", verify, err)
		}
		fresh := attachTo(t, c, &Options{Verify: verify})
		if _, err := fresh.Get(1); errors.Is(err, ErrMiss) != (verify != VerifyNever) {
			t.Errorf("%d, not touched before: %v", verify, err)
		}
	}
}

// Someone cuts the file off: every touch beyond its end is a signal.
func TestTruncatedFile(t *testing.T) {
	eachKind(t, func(t *testing.T, o *Options) {
		for _, left := range []int64{1 << 20, 4096 + 8*100_000, 4096, 0} {
			c := ok(Create(100_000, &Options{Dir: inMemory(t), Verify: o.Verify}))(t)
			put(t, c, 5, string(make([]byte, 1<<20)))
			put(t, c, 99_000, "entry")
			wantEntry(t, c, 99_000, "entry")
			f := ok(c.File())(t)
			must(t, f.Truncate(left))
			must(t, f.Close())
			wantMiss(t, c, 99_000)
			_, errPut := c.Put(7, []byte("entry"))
			_, errPut2 := c.Put(99_000, []byte("entry"))
			_, errStats := c.Stats()
			_, errCheck := c.Check(t.Context())
			errFreeze := c.Freeze(t.Context())
			errPreserve := preserve(c, filepath.Join(t.TempDir(), "x"), false)
			t.Log(left, errPut, errPut2, errStats, errCheck, errFreeze, errPreserve) // whatever they are
			must(t, c.Close())
		}
	})
}

func TestFaultInView(t *testing.T) {
	c := create(t, 10, nil)
	put(t, c, 1, string(make([]byte, 1<<20)))
	begun := false
	err := c.View(1, func(b []byte) error {
		begun = true
		f := ok(c.File())(t)
		must(t, f.Truncate(8192))
		must(t, f.Close())
		sum := byte(0)
		for _, x := range b {
			sum += x
		}
		t.Error("all of it was read", sum)
		return nil
	})
	wantErr(t, err, ErrMiss)
	if s := stats(t, c); s.Faults != 1 || !begun {
		t.Errorf("%+v", s)
	}
	// The same call in a View of another cache, which is none of its faults.
	outer := create(t, 10, nil)
	put(t, outer, 1, "entry")
	must(t, outer.View(1, func([]byte) error {
		wantErr(t, c.View(1, func(b []byte) error { return fmt.Errorf("read %d", b[len(b)-1]) }), ErrMiss)
		return nil
	}))
}

// handMade makes a file that no process of this package would: f writes to a preserved cache of 10
// slots, which is loaded then.
func handMade(t *testing.T, f func(file *os.File)) *Cache {
	t.Helper()
	c := create(t, 10, nil)
	put(t, c, 9, "entry")
	path := filepath.Join(inMemory(t), "made")
	must(t, preserve(c, path, false))
	file := ok(os.OpenFile(path, os.O_RDWR, 0))(t)
	f(file)
	must(t, file.Close())
	loaded := ok(Load(path, nil))(t)
	t.Cleanup(func() { must(t, loaded.Close()) })
	return loaded
}

// pointTo writes a record's header, and has its slot lead to it.
func pointTo(t *testing.T, f *os.File, r record) {
	t.Helper()
	var head [recordHead]byte
	r.encode(&head, table(version))
	must(t, ignore(f.WriteAt(head[:], r.offset)))
	must(t, ignore(f.WriteAt(le.AppendUint64(nil, uint64(r.offset)), slotAt(r.slot))))
}

func TestRecordLengthOverflow(t *testing.T) {
	c := handMade(t, func(f *os.File) {
		must(t, f.Truncate(maxOffset+4096))
		pointTo(t, f, record{slot: 1, length: maxOffset, offset: maxOffset})
		pointTo(t, f, record{slot: 2, length: maxOffset - 1<<20, offset: 2 << 20})
	})
	wantMiss(t, c, 1)
	wantMiss(t, c, 2)
	wantEntry(t, c, 9, "entry")
}

func TestHugeLengthAllocatesNothing(t *testing.T) {
	const distant = mapBytes + 1<<20
	c := handMade(t, func(f *os.File) {
		must(t, f.Truncate(4*mapBytes))
		pointTo(t, f, record{slot: 1, length: 2 * mapBytes, offset: distant})
		pointTo(t, f, record{slot: 2, length: 2 * largeRecord, offset: distant + recordHead, sum: 1})
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Get(1)
	if err == nil || errors.Is(err, ErrMiss) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v", err)
	}
	_, err = c.Get(2)
	wantErr(t, err, ErrMiss)
	has, err := c.Has(2)
	if has || err != nil {
		t.Errorf("%v, %v", has, err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > largeRecord/4 {
		t.Errorf("%d bytes were taken", took)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errTest)
	defer cancel()
	_, err = c.Check(ctx) // is not kept by it
	wantErr(t, err, errTest)
}

func TestCancelledCheck(t *testing.T) {
	const distant = mapBytes + 1<<20
	c := handMade(t, func(f *os.File) {
		must(t, f.Truncate(2*mapBytes))
		pointTo(t, f, record{slot: 1, length: largeRecord, offset: distant, sum: 1})
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	faults(t, func(point string) error {
		if point == "cache.read" {
			cancel(errTest)
		}
		return nil
	})
	_, err := c.Check(ctx)
	wantErr(t, err, errTest)
	if s := stats(t, c); s.Bad != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAddressSpaceLimitsMemory(t *testing.T) {
	before := memory()
	var l unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_AS, &l))
	most := max(uint64(before), 8<<30)
	if l.Cur < most {
		t.Skip("this process has a limit already")
	}
	must(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: l.Max}))
	got := memory()
	must(t, unix.Setrlimit(unix.RLIMIT_AS, &l))
	if want := min(before, int64(most/2)); got != want {
		t.Errorf("%d, not %d", got, want)
	}
}

func TestOverlappingRecords(t *testing.T) {
	c := create(t, 10, nil)
	inner := record{slot: 2, length: 5, offset: FileSize(10) + recordHead,
		sum: crc32.Checksum([]byte("inner"), c.sums)}
	var head [recordHead]byte
	inner.encode(&head, c.sums)
	put(t, c, 1, string(head[:])+"inner")
	must(t, ignore(c.guard(func() error { return ignore(c.swapSlot(2, 0, inner.offset)) })))
	if rep := check(t, c); rep.OK() || rep.Bad != 1 || rep.FilledSlots != 1 || rep.FirstBad[0] != 2 {
		t.Errorf("%+v", rep)
	}
	path := filepath.Join(t.TempDir(), "kept")
	if dropped := ok(c.Preserve(t.Context(), path, false))(t); dropped != 1 {
		t.Errorf("%d dropped", dropped)
	}
	kept := ok(Load(path, nil))(t)
	defer kept.Close()
	wantMiss(t, kept, 2)
	wantEntry(t, kept, 1, string(head[:])+"inner")
	if rep := check(t, kept); !rep.OK() || rep.FilledSlots != 1 {
		t.Errorf("%+v", rep)
	}
}

func TestPutReplacesTruncatedEntry(t *testing.T) {
	for _, first := range []string{"Get", "Has and Put", "Put"} {
		c := create(t, 10, nil)
		put(t, c, 1, string(make([]byte, 100_000)))
		wantEntry(t, c, 1, string(make([]byte, 100_000)))
		f := ok(c.File())(t)
		must(t, f.Truncate(8192))
		must(t, f.Close())
		if first == "Get" {
			wantErr(t, ignore(c.Get(1)), ErrMiss)
		} else {
			c.verified.remove(1) // its bytes are looked at
		}
		if first != "Put" { // which finds out by itself then
			if has, err := c.Has(1); has || err != nil {
				t.Errorf("%s: %v, %v", first, has, err)
			}
		}
		if stored, err := c.Put(1, []byte("again")); !stored || err != nil {
			t.Errorf("%s: %v, %v", first, stored, err)
		}
		wantEntry(t, c, 1, "again")
	}
}

// cutAt has the file cut off when a fault point is passed.
func cutAt(t *testing.T, c *Cache, point string, size int64) {
	t.Helper()
	f := ok(c.File())(t)
	t.Cleanup(func() { must(t, f.Close()) })
	faults(t, func(p string) error {
		if p == point {
			return f.Truncate(size)
		}
		return nil
	})
}

func TestFaultDuringPublish(t *testing.T) {
	c := create(t, 100_000, nil)
	put(t, c, 1, "entry")
	put(t, c, 99_000, "entry")
	before := stats(t, c).Bytes
	cutAt(t, c, "cache.publish", pageSize)
	if put(t, c, 99_001, "entry") {
		t.Error("stored")
	}
	faults(t, func(string) error { return nil })
	if s := stats(t, c); s.RefusedNoSpace != 1 || s.RefusedRace != 0 || s.Stored != 2 || s.Bytes != before {
		t.Errorf("%+v, %d bytes before", s, before)
	}
}

func TestFaultAfterPublish(t *testing.T) {
	c := create(t, 10, nil)
	cutAt(t, c, "cache.published", 0)
	if stored, err := c.Put(1, []byte("entry")); !stored || err != nil {
		t.Errorf("%v, %v", stored, err)
	}
}

func TestWindowUnmappedDuringFault(t *testing.T) {
	var c *Cache
	gone := 0
	faults(t, func(point string) error {
		switch point {
		case "cache.map", "cache.map index":
			return errTest
		case "cache.released": // others need windows at this moment
			gone++
			must(t, c.m.win.close())
		}
		return nil
	})
	c = create(t, 1e6, nil)
	f := ok(c.File())(t)
	must(t, f.Truncate(pageSize))
	must(t, f.Close())
	c.present.add(1500)
	wantErr(t, ignore(c.Get(1500*slotsOnPage)), ErrMiss)
	if s := stats(t, c); s.Faults != 1 || gone != 1 {
		t.Errorf("%+v, %d", s, gone)
	}
}

func TestPreserveWithTemporaryDiskError(t *testing.T) {
	for fails, kept := range map[int]bool{1: true, 1000: false} {
		count, dir := 0, t.TempDir()
		faults(t, func(point string) error {
			if point == "cache.map" {
				return errTest
			}
			if point == "cache.read" {
				if count++; count <= fails {
					return unix.EIO
				}
			}
			return nil
		})
		c := create(t, 10, nil)
		put(t, c, 1, "entry")
		dropped, err := c.Preserve(t.Context(), filepath.Join(dir, "kept"), false)
		if kept && (err != nil || dropped != 0) || !kept && !errors.Is(err, unix.EIO) {
			t.Errorf("%d failures: %d dropped, %v", fails, dropped, err)
		}
		if !kept && (len(allNames(t, dir)) > 0 || !strings.Contains(err.Error(), "entry 1")) {
			t.Errorf("%q, %v", allNames(t, dir), err)
		}
		count = fails
		wantEntry(t, c, 1, "entry")
		must(t, preserve(c, filepath.Join(dir, "kept"), true))
	}
}

// setTail writes the tail word of a cache's file.
func setTail(t testing.TB, path string, tail uint64) {
	t.Helper()
	f := ok(os.OpenFile(path, os.O_RDWR, 0))(t)
	must(t, ignore(f.WriteAt(le.AppendUint64(nil, tail), tailAt)))
	must(t, f.Close())
}

func TestLowerTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "named")
	c := ok(Open(path, 10, nil))(t)
	put(t, c, 1, "first")
	must(t, c.Close())
	before := ok(os.Stat(path))(t).Size()
	for _, tail := range []uint64{1 << 40, 1<<40 | frozen, uint64(roundUp(before, align)) + align} {
		setTail(t, path, tail)
		if info := ok(Inspect(path))(t); info.Bytes != roundUp(before, align) {
			t.Errorf("a tail of %x: Inspect finds %+v", tail, info)
		}
		c = ok(Open(path, 10, nil))(t)
		s := stats(t, c)
		if s.Bytes != roundUp(before, align) || s.Frozen != (tail&frozen != 0) {
			t.Errorf("a tail of %x became %+v", tail, s)
		}
		must(t, c.Close())
	}
	c = ok(Open(path, 10, nil))(t)
	put(t, c, 2, "second")
	wantEntry(t, c, 1, "first")
	wantEntry(t, c, 2, "second")
	if rep := check(t, c); !rep.OK() || rep.FilledSlots != 2 || rep.DeadBytes != 0 {
		t.Errorf("%+v", rep)
	}
	must(t, c.Close())
	if after := ok(os.Stat(path))(t).Size(); after > before+1000 {
		t.Errorf("the file grew from %d to %d bytes", before, after)
	}
}

func TestTailIsMovedBackByOneOfSeveralOpeners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "named")
	c := ok(Open(path, 10, nil))(t)
	put(t, c, 1, "first")
	must(t, c.Close())
	size := ok(os.Stat(path))(t).Size()
	for range 100 {
		setTail(t, path, 1<<40)
		var g sync.WaitGroup
		opened := make([]*Cache, 8)
		for i := range opened {
			g.Go(func() { opened[i], _ = Open(path, 10, nil) })
		}
		g.Wait()
		for _, c := range opened {
			if c == nil {
				t.Fatal("the cache was not opened")
			}
			if s := stats(t, c); s.Bytes > roundUp(size, align) {
				t.Fatalf("the tail is %d, the file has %d bytes", s.Bytes, size)
			}
			must(t, c.Close())
		}
	}
}

// Another process may be about to write behind the end of the file.
func TestLowerTailWhileShared(t *testing.T) {
	c := create(t, 10, nil)
	r := record{slot: 1, length: 100_000}
	if a := c.reserve(&r, true); a != reserved {
		t.Fatal(a)
	}
	other := attachTo(t, c, nil)
	put(t, other, 2, "entry")
	if at := slotOf(t, other, 2); at < r.offset+r.space() {
		t.Errorf("space was given twice: a record at %d, another one at %d to %d", at, r.offset, r.offset+r.space())
	}
}
