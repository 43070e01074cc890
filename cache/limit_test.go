//go:build linux

package cache

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

var errNoSpace error = unix.ENOSPC

// pfio: the limit freezes one process only.
func TestAReachedLimitFreezesTheCacheForAllProcesses(t *testing.T) {
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
	if s := stats(t, c); s.Frozen || s.Full != 0 || s.MaxBytes != size {
		t.Errorf("%+v", s)
	}
	for k, at := range []*Cache{c, other, c, attachTo(t, c, nil)} {
		if put(t, at, 2+int64(k), "") {
			t.Error("beyond the limit")
		}
	}
	if s := stats(t, other); !s.Frozen || s.Full != 1 || s.Refused != 3 || s.DeadBytes != 0 {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log.String(), "limit"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	wantEntry(t, c, 1, strings.Repeat("b", 1000))
}

func TestOneByteMoreThanTheLimitDoesNotFit(t *testing.T) {
	c := create(t, 10, &Options{MaxBytes: FileSize(10, 100, 1000) - 1})
	put(t, c, 0, strings.Repeat("a", 100))
	if put(t, c, 1, strings.Repeat("b", 1000)) {
		t.Error("it was taken")
	}
	if s := stats(t, c); !s.Frozen || s.Full != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTheLimitHoldsWithManyWritersInFlight(t *testing.T) {
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
	if st.Size > limit || !s.Frozen || int64(stored) != s.Stored || rep.Filled != s.Stored || !rep.OK() || stored == 0 {
		t.Errorf("%d bytes, %d stored, %+v, %+v", st.Size, stored, s, rep)
	}
}

func TestFreezeEndsPutsOfAllProcessesAndNothingIsInFlightAfterIt(t *testing.T) {
	c := create(t, 5000, nil)
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
	must(t, c.Freeze())
	before := check(t, c)
	time.Sleep(50 * time.Millisecond)
	for _, p := range children {
		awaitEnd(t, p)
	}
	wg.Wait()
	after := check(t, c)
	if before.Filled != after.Filled || !after.OK() || before.Filled == 5000 || before.DeadBytes != after.DeadBytes {
		t.Errorf("%+v, then %+v", before, after)
	}
	must(t, c.Freeze())
	if put(t, attachTo(t, c, nil), 4999, "late") && before.Empty > 0 {
		t.Error("stored after it")
	}
}

func TestFreezeWaitsForAPutThatIsWriting(t *testing.T) {
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
			if err := at.Freeze(); err != nil {
				t.Error(err)
			}
			if _, err := at.Get(1); err != nil {
				t.Errorf("the put was not over: %v", err)
			}
		})
	}
	time.Sleep(30 * time.Millisecond)
	if put(t, c, 2, "late") {
		t.Error("stored while it is being frozen")
	}
	close(goOn)
	wg.Wait()
	wantEntry(t, c, 1, "entry")
}

// pfio: a failed put keeps the lock; a full disk raises AssertionError; a failed put leaves an index entry that leads elsewhere.
func TestWantOfRoomIsCountedToldOnceAndLeavesNothing(t *testing.T) {
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
			if s.NoSpace != 3 || s.Frozen || s.Bytes != before || s.DeadBytes != 0 {
				t.Errorf("%+v", s)
			}
			if n := strings.Count(log.String(), "no room"); n != 1 {
				t.Errorf("told %d times: %s", n, log.String())
			}
			faults(t, func(string) error { return nil })
			for k := range int64(3) { // room again, nothing is poisoned or locked
				wantMiss(t, c, 1000+k)
				if !put(t, other, 1000+k, "after") {
					t.Error("not stored")
				}
				wantEntry(t, c, 1000+k, "after")
			}
			wantEntry(t, c, 0, "before")
			must(t, c.Freeze())
		})
	}
}

func TestAnErrorOfTheDiskIsAnErrorAndPoisonsNothing(t *testing.T) {
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
		must(t, c.Freeze())
	}
}

// A full tmpfs answers a store into a hole, and a load of one, by a signal.
func TestAFullFileSystemIsAnswerAndNeverASignal(t *testing.T) {
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
			if s.NoSpace != 50 || s.Frozen || !rep.OK() || rep.Filled != int64(len(stored)) || len(stored) == 0 {
				t.Errorf("%+v, %+v, %d stored", s, rep, len(stored))
			}
			t.Logf("%d stored, %d faults", len(stored), s.Faults)
			must(t, c.Freeze())
		})
	}
}

func TestACacheCantBeMadeWithoutRoomForItsFirstPage(t *testing.T) {
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
