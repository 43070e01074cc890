//go:build linux

package cache

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fdio"
	"leat/internal/proctest"
)

var errNoSpace error = unix.ENOSPC

// pfio: the limit freezes one process only.
func TestLimitFreezes(t *testing.T) {
	size := FileSize(10, 100, 1000)
	var log bytes.Buffer
	c := create(t, 10, &Options{MaxBytes: size, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	other := attachTo(t, c, nil)
	if !put(t, c, 0, strings.Repeat("a", 100)) || !put(t, other, 1, strings.Repeat("b", 1000)) {
		t.Error("an exact fit was refused")
	}
	f := ok(c.File())(t)
	if st := statOf(t, f); st.Size != size {
		t.Errorf("the file has %d bytes, not %d", st.Size, size)
	}
	must(t, f.Close())
	if s := stats(t, c); s.Frozen || s.RefusedFull != 0 || s.MaxBytes != size {
		t.Errorf("%+v", s)
	}
	for k, at := range []*Cache{c, other, c, attachTo(t, c, nil)} {
		if put(t, at, 2+int64(k), "") {
			t.Error("beyond the limit")
		}
	}
	if s := stats(t, other); !s.Frozen || s.RefusedFull != 1 || s.RefusedFrozen != 3 || s.DeadBytes != 0 {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log.String(), "limit"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	wantEntry(t, c, 1, strings.Repeat("b", 1000))
}

func TestLimitIsExact(t *testing.T) {
	c := create(t, 10, &Options{MaxBytes: FileSize(10, 100, 1000) - 1})
	put(t, c, 0, strings.Repeat("a", 100))
	if put(t, c, 1, strings.Repeat("b", 1000)) {
		t.Error("it was taken")
	}
	if s := stats(t, c); !s.Frozen || s.RefusedFull != 1 {
		t.Errorf("%+v", s)
	}
}

func TestLimitWithManyWriters(t *testing.T) {
	const limit = 1 << 20
	c := create(t, 1000, &Options{MaxBytes: limit})
	var children []*proctest.Command
	for range 3 {
		children = append(children, proctest.New("put all", handleOf(t, c), "").Start(t))
	}
	stored := 0
	for _, p := range children {
		stored += ok(strconv.Atoi(awaitEnd(t, p)))(t)
	}
	f := ok(c.File())(t)
	st := statOf(t, f)
	must(t, f.Close())
	s, rep := stats(t, c), check(t, c)
	if st.Size > limit || !s.Frozen || int64(stored) != s.Stored || rep.FilledSlots != s.Stored || !rep.OK() ||
		stored == 0 {
		t.Errorf("%d bytes, %d stored, %+v, %+v", st.Size, stored, s, rep)
	}
}

func TestFreezeAcrossProcesses(t *testing.T) {
	// Where all have put before it comes, it comes into more.
	for n := int64(5000); !freezeAmongPuts(t, n) && !t.Failed(); n *= 4 {
		if n > 5_000_000 {
			t.Fatal("it always comes too late")
		}
	}
}

func freezeAmongPuts(t *testing.T, n int64) (inTime bool) {
	c := create(t, n, nil)
	var children []*proctest.Command
	for range 3 {
		children = append(children, proctest.New("put all", handleOf(t, c), "").Start(t))
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range c.N() {
				if _, err := c.Put(c.N()-1-i, content(c.N()-1-i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	await(t, "an entry", func() bool { return stats(t, c).Stored > 50 })
	must(t, c.Freeze(t.Context()))
	before := check(t, c)
	for _, p := range children {
		awaitEnd(t, p)
	}
	wg.Wait()
	after := check(t, c)
	if before.FilledSlots != after.FilledSlots || !after.OK() || before.DeadBytes != after.DeadBytes {
		t.Errorf("%+v, then %+v", before, after)
	}
	must(t, c.Freeze(t.Context()))
	if put(t, attachTo(t, c, nil), n-1, "late") && before.Empty > 0 {
		t.Error("stored after it")
	}
	return before.Empty > 0
}

func TestFreezeWaitsForPut(t *testing.T) {
	c := create(t, 10, nil)
	other := attachTo(t, c, nil)
	inside, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	faults(t, func(point string) error {
		if point == "cache.written" {
			once.Do(func() { inside <- true; <-goOn })
		}
		return nil
	})
	var published atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		if ok, err := other.Put(1, []byte("entry")); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		published.Store(true)
	})
	<-inside
	for _, at := range []*Cache{c, other} { // from outside and from the putting process itself
		wg.Go(func() {
			if err := at.Freeze(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := at.Get(1); err != nil {
				t.Errorf("the put was not over: %v", err)
			}
		})
	}
	await(t, "the freeze", func() bool { return stats(t, c).Frozen })
	if put(t, c, 2, "late") {
		t.Error("stored while it is being frozen")
	}
	close(goOn)
	wg.Wait()
	wantEntry(t, c, 1, "entry")
}

// pfio: a failed put keeps the lock; a full disk raises AssertionError; a failed put leaves an
// index entry that leads elsewhere.
func TestNoSpaceIsCountedAndLoggedOnce(t *testing.T) {
	for _, point := range []string{"cache.write", "cache.index", "cache.wrote then write"} {
		t.Run(point, func(t *testing.T) {
			var log bytes.Buffer
			c := create(t, 2000, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			other := attachTo(t, c, nil)
			put(t, c, 0, "before")
			before := stats(t, c).Bytes
			writes := 0
			faults(t, func(p string) error {
				switch {
				case p == point:
					return errNoSpace
				case point == "cache.wrote then write" && p == "cache.short write":
					return errTest
				case point == "cache.wrote then write" && p == "cache.write":
					if writes++; writes%2 == 0 { // the second piece
						return errNoSpace
					}
				}
				return nil
			})
			for k := range int64(3) {
				if put(t, c, 1000+k, strings.Repeat("x", 10_000)) {
					t.Error("stored")
				}
			}
			s := stats(t, other)
			if s.RefusedNoSpace != 3 || s.Frozen || s.Bytes != before || s.DeadBytes != 0 {
				t.Errorf("%+v", s)
			}
			if n := strings.Count(log.String(), "no disk space"); n != 1 {
				t.Errorf("logged %d times: %s", n, log.String())
			}
			faults(t, func(string) error { return nil })
			for k := range int64(3) { // space again, nothing is poisoned or locked
				wantMiss(t, c, 1000+k)
				if !put(t, other, 1000+k, "after") {
					t.Error("not stored")
				}
				wantEntry(t, c, 1000+k, "after")
			}
			wantEntry(t, c, 0, "before")
			must(t, c.Freeze(t.Context()))
		})
	}
}

func TestDiskError(t *testing.T) {
	for _, point := range []string{"cache.write", "cache.index", "cache.publish"} {
		c := create(t, 10, nil)
		failAt(t, point, unix.EIO)
		stored, err := c.Put(1, []byte("entry"))
		wantErr(t, err, unix.EIO)
		if stored {
			t.Error("stored")
		}
		faults(t, func(string) error { return nil })
		wantMiss(t, c, 1)
		if !put(t, c, 1, "entry") {
			t.Error("not stored")
		}
		if rep := check(t, c); !rep.OK() || rep.DeadBytes != 0 {
			t.Errorf("%s: %+v", point, rep)
		}
		must(t, c.Freeze(t.Context()))
	}
}

// A full tmpfs answers a store into a hole, and a load of one, by a signal.
func TestFullDisk(t *testing.T) {
	for _, fs := range []string{"tmpfs", "ext4"} {
		t.Run(fs, func(t *testing.T) {
			dir := smallFS(t, fs)
			c := create(t, 1e6, &Options{Dir: dir})
			other := attachTo(t, c, nil)
			stored := map[int64]bool{}
			data := content(1)
			refused := 0
			// Slots far from each other, so that pages of the index run out too.
			for k := int64(0); refused < 50 && k < 5000; k++ {
				i := k * 199
				size := len(data)
				if refused%2 == 1 {
					size = 10
				}
				did, err := c.Put(i, data[:size])
				must(t, err)
				if did {
					stored[i] = true
					if b, err := other.Get(i); err != nil || !bytes.Equal(b, data[:size]) {
						t.Fatalf("slot %d: %v", i, err)
					}
				} else {
					refused++
				}
			}
			for i := int64(0); i < 1e6; i += 97 { // looking at holes
				_, err := other.Get(i)
				if (err == nil) != stored[i] {
					t.Fatalf("slot %d: %v, stored %v", i, err, stored[i])
				}
			}
			s, rep := stats(t, c), check(t, c)
			if s.RefusedNoSpace != 50 || s.Frozen || !rep.OK() || rep.FilledSlots != int64(len(stored)) ||
				len(stored) == 0 {
				t.Errorf("%+v, %+v, %d stored", s, rep, len(stored))
			}
			t.Logf("%d stored, %d faults", len(stored), s.Faults)
			must(t, c.Freeze(t.Context()))
		})
	}
}

func TestCreateOnFullDisk(t *testing.T) {
	failAt(t, "cache.write", errNoSpace)
	dir := t.TempDir()
	_, err := Create(10, &Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%v", err)
	}
	if _, err = Open(dir+"/c", 10, nil); err == nil {
		t.Error("opened")
	}
	if left := allNames(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// allAt has goroutines wait at a fault point until so many have come, and then fail at another one.
func allAt(t *testing.T, many int, point, then string, err error) {
	t.Helper()
	var mu sync.Mutex
	here, gate := 0, make(chan bool)
	faults(t, func(p string) error {
		if p == then {
			return err
		}
		if p == point {
			mu.Lock()
			mine := gate
			if here++; here%many == 0 {
				close(gate)
				gate = make(chan bool)
			}
			mu.Unlock()
			select {
			case <-mine:
			case <-time.After(20 * time.Second): // fewer come than should: the test fails by something else
			}
		}
		return nil
	})
}

// Of puts that fail at the same time only one is the last of the file: the space of the others must
// not be lost.
func TestTemporarilyFullDisk(t *testing.T) {
	const size, writers, rounds = 10_000, 4, 100
	c := create(t, 1000, &Options{MaxBytes: FileSize(1000) + 40*size})
	other := attachTo(t, c, nil)
	allAt(t, writers, "cache.reserved", "cache.write", errNoSpace)
	var wg sync.WaitGroup
	for w := range int64(writers) {
		wg.Go(func() {
			for k := range int64(rounds) {
				stored, err := []*Cache{c, other}[w%2].Put(w*rounds+k, make([]byte, size-int(k)))
				if stored || err != nil {
					t.Errorf("%v, %v", stored, err)
				}
			}
		})
	}
	wg.Wait()
	s := stats(t, c)
	if s.Frozen || s.RefusedNoSpace != writers*rounds || s.DeadBytes > writers*(size+recordHead+align) {
		t.Errorf("%+v", s)
	}
	faults(t, func(string) error { return nil })
	for i := range int64(30) { // into that space and behind it
		if !put(t, []*Cache{c, other}[i%2], i, strings.Repeat("x", size)) {
			t.Errorf("slot %d was not stored", i)
		}
	}
	for i := range int64(30) {
		wantEntry(t, c, i, strings.Repeat("x", size))
	}
	if rep := check(t, c); !rep.OK() || rep.FilledSlots != 30 || rep.DeadBytes > 2*(size+recordHead+align) {
		t.Errorf("%+v", rep)
	}
}

func TestTemporarilyFullDiskWithManyWriters(t *testing.T) {
	for _, fs := range []string{"tmpfs", "ext4"} {
		t.Run(fs, func(t *testing.T) {
			dir := smallFS(t, fs)
			const size = 100_000
			c := create(t, 1000, &Options{Dir: dir, MaxBytes: 100 << 20})
			other := attachTo(t, c, nil)
			must(t, os.WriteFile(dir+"/filler", make([]byte, ok(fdio.FreeSpace(c.fd))(t)-50_000), 0o600))
			end := time.Now().Add(500 * time.Millisecond)
			var wg sync.WaitGroup
			for w := range int64(4) {
				wg.Go(func() {
					for i := w; time.Now().Before(end); i = (i + 4) % 1000 {
						if _, err := []*Cache{c, other}[w%2].Put(i, make([]byte, size)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			s := stats(t, c)
			if s.Frozen || s.RefusedNoSpace == 0 || s.DeadBytes > 4*2*size {
				t.Errorf("%+v", s)
			}
			must(t, os.Remove(dir+"/filler"))
			if !put(t, c, 999, "entry") || !put(t, other, 998, strings.Repeat("x", size)) || !check(t, c).OK() {
				t.Errorf("%+v", stats(t, c))
			}
		})
	}
}

func TestFreeExtents(t *testing.T) {
	var s freeExtents
	var tail atomic.Uint64
	tail.Store(640)
	for _, e := range []extent{{from: 256, to: 320}, {from: 64, to: 128}, {from: 320, to: 448}, {from: 128, to: 192}} {
		s.add(e)
	}
	if len(s.list) != 2 || s.list[0] != (extent{from: 64, to: 192}) || s.list[1] != (extent{from: 256, to: 448}) {
		t.Errorf("%+v", s.list)
	}
	if r := (record{length: 129}); s.take(&r, 1<<20) {
		t.Errorf("%d bytes were given space at %d", r.length, r.offset)
	}
	if r := (record{length: 128}); s.take(&r, 447) || !s.take(&r, 448) || r.offset != 256 {
		t.Errorf("%+v", r)
	}
	if r := (record{length: 1}); !s.take(&r, 1<<20) || r.offset != 64 || len(s.list) != 0 {
		t.Errorf("%+v, %+v", r, s.list)
	}
	s.add(extent{from: 512, to: 640})
	s.trim(&tail)
	if tail.Load() != 512 || s.any.Load() {
		t.Errorf("%d, %+v", tail.Load(), s.list)
	}
	tail.Store(576 | frozen)
	s.add(extent{from: 512, to: 576})
	s.trim(&tail)
	if tail.Load() != 576|frozen { // which is final
		t.Errorf("%x", tail.Load())
	}
}

func TestFreeExtentAtEndIsTrimmed(t *testing.T) {
	c := create(t, 10, nil)
	x := attachTo(t, c, nil)
	empty := stats(t, c).Bytes
	var first, second record
	first.length, second.length = 1000, 2000
	if a := c.reserve(&first, true); a != reserved {
		t.Fatal(a)
	}
	if a := x.reserve(&second, true); a != reserved || second.offset <= first.offset {
		t.Fatal(a, first, second)
	}
	c.releaseRecord(&first)
	x.releaseRecord(&second)
	if b := stats(t, c).Bytes; b != empty+first.space() {
		t.Fatalf("%d bytes, %d when it was empty", b, empty)
	}
	put(t, c, 1, string(make([]byte, 5000))) // which does not fit into the spare space
	if s := stats(t, c); s.DeadBytes != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPutReplacesFaultingRecord(t *testing.T) {
	dir := smallFS(t, "tmpfs")
	c := create(t, 10, &Options{Dir: dir})
	put(t, c, 1, string(make([]byte, 100_000)))
	offset := int64(0)
	_, err := c.guard(func() error { offset = c.loadSlot(1); return nil })
	must(t, err)
	must(t, unix.Fallocate(c.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset&^4095+4096, 40960))
	c.verified.remove(1)
	// until it is full: the hole can't be looked at
	_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<20), 0o600)
	wantMiss(t, c, 1)
	b, err := c.GetOrFill(t.Context(), 1, func(context.Context) ([]byte, error) { return []byte("filled"), nil })
	if string(b) != "filled" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if stored, err := c.Put(1, []byte("x")); err != nil {
		t.Errorf("%v, %v", stored, err)
	}
	must(t, os.Remove(filepath.Join(dir, "filler")))
	if b := ok(c.GetOrFill(t.Context(), 1,
		func(context.Context) ([]byte, error) { return []byte("filled"), nil }))(t); string(b) != "filled" &&
		string(b) != "x" {
		t.Errorf("%q", b)
	}
	if s := stats(t, c); s.Repaired != 1 {
		t.Errorf("%+v", s)
	}
}

func TestReopenOnFullDiskKeepsLimit(t *testing.T) {
	c := create(t, 1000, &Options{MaxBytes: 1 << 20})
	for k := range int64(60) {
		x := ok(Attach(ok(c.Handle())(t), nil))(t)
		var n atomic.Int32
		in, goOn := [2]chan bool{make(chan bool), make(chan bool)}, [2]chan bool{make(chan bool), make(chan bool)}
		faults(t, func(point string) error {
			if point != "cache.write" {
				return nil
			}
			if i := n.Add(1) - 1; i < 2 {
				close(in[i])
				<-goOn[i]
			}
			return errNoSpace
		})
		var done [2]chan bool
		for i, by := range []*Cache{x, c} { // that of c lies behind that of x, which fails first
			done[i] = make(chan bool)
			go func() {
				defer close(done[i])
				_, _ = by.Put(k, make([]byte, 30_000))
			}()
			select {
			case <-in[i]:
			case <-done[i]:
				t.Fatalf("round %d: %+v", k, stats(t, c))
			}
		}
		for i := range 2 {
			close(goOn[i])
			<-done[i]
		}
		must(t, x.Close())
	}
	faults(t, func(string) error { return nil })
	if s := stats(t, c); s.Frozen || s.DeadBytes > 1<<16 {
		t.Errorf("%+v", s)
	}
	put(t, c, 1, "when there is space again")
}

func TestTryPut(t *testing.T) {
	c := create(t, 10, &Options{MaxBytes: FileSize(10, 100, 10)})
	wants := func(want PutResult, i int64, size int) {
		t.Helper()
		if o, err := c.TryPutFrom(i, bytes.NewReader(make([]byte, size)), int64(size)); o != want || err != nil {
			t.Errorf("%d, %v, not %d", o, err, want)
		}
	}
	wants(Full, 0, 300)
	wants(Stored, 0, 100)
	wants(AlreadyFilled, 0, 1)
	wants(Full, 1, 11)
	wants(Stored, 1, 10)
	if s := stats(t, c); s.Frozen || s.RefusedFull != 0 || s.Stored != 2 {
		t.Errorf("%+v", s)
	}
	must(t, c.Freeze(t.Context()))
	wants(Frozen, 2, 1)
	small := create(t, 10, nil)
	failAt(t, "cache.write", errNoSpace)
	if o, err := small.TryPutFrom(0, bytes.NewReader(nil), 0); o != NoSpace || err != nil {
		t.Errorf("%d, %v", o, err)
	}
	if o, err := small.TryPutFrom(10, bytes.NewReader(nil), 0); o != 0 || !errors.Is(err, errRange) {
		t.Errorf("%d, %v", o, err)
	}
}

func TestFreezeContext(t *testing.T) {
	c := create(t, 10, nil)
	other := attachTo(t, c, nil)
	inside, goOn := make(chan bool), make(chan bool)
	faults(t, func(point string) error {
		if point == "cache.written" {
			inside <- true
			<-goOn
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, other, 1, "entry") })
	<-inside
	for _, at := range []*Cache{c, other} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errTest)
		wantErr(t, at.Freeze(ctx), errTest)
		_, err := at.Preserve(ctx, t.TempDir()+"/x", false)
		wantErr(t, err, errTest)
		cancel()
	}
	if !stats(t, c).Frozen {
		t.Error("it is not frozen")
	}
	close(goOn)
	wg.Wait()
	must(t, c.Freeze(t.Context()))
	wantEntry(t, c, 1, "entry")
	fresh := create(t, 10, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	wantErr(t, fresh.Freeze(ctx), errTest)
	_, err := fresh.Preserve(ctx, t.TempDir()+"/x", false)
	wantErr(t, err, errTest)
	if stats(t, fresh).Frozen {
		t.Error("it was frozen although ctx had ended before")
	}
}
