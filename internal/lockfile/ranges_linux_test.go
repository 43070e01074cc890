package lockfile

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

// openRanges opens n times the locks of one file.
func openRanges(t testing.TB, d *Dir, n int) []*Ranges {
	t.Helper()
	var all []*Ranges
	for range n {
		r := ok(d.OpenRanges("locks"))(t)
		t.Cleanup(func() { must(t, r.Close()) })
		all = append(all, r)
	}
	return all
}

func try(t testing.TB, r *Ranges, mode Mode, first, n int64, want bool) {
	t.Helper()
	if got := ok(r.Try(mode, first, n))(t); got != want {
		t.Errorf("lock %d of %d numbers from %d: %v", mode, n, first, got)
	}
}

func probe(t testing.TB, r *Ranges, first, n int64, want bool) {
	t.Helper()
	if got := ok(r.Probe(first, n))(t); got != want {
		t.Errorf("locks on %d numbers from %d: %v", n, first, got)
	}
}

func TestRangesConflictWithOtherRangesOnly(t *testing.T) {
	rs := openRanges(t, openTest(t), 3)
	a, b, c := rs[0], rs[1], rs[2]
	try(t, a, Write, 10, 10, true)
	try(t, a, Write, 15, 10, true) // 10 to 24, its own in between
	try(t, a, Read, 10, 3, true)   // a part of them changes
	// Another of the same process conflicts where they overlap.
	try(t, b, Write, 24, 1, false)
	try(t, b, Read, 24, 5, false)
	try(t, b, Write, 0, 11, false)
	try(t, b, Read, 13, 1, false)
	try(t, b, Read, 0, 13, true) // with those that are read
	try(t, b, Write, 25, 5, true)
	try(t, b, Write, 9, 1, true)
	probe(t, a, 0, 10, true)
	probe(t, a, 0, 9, true)
	probe(t, a, 13, 12, false) // its own are not seen
	probe(t, b, 13, 12, true)
	probe(t, c, 30, 1000, false)
	probe(t, c, 0, 1, true)
	// A part is freed.
	try(t, a, Free, 15, 2, true)
	try(t, c, Write, 15, 2, true)
	try(t, c, Write, 14, 1, false)
	try(t, c, Write, 17, 1, false)
	try(t, c, Free, 1000, 5, true) // what one does not have is freed all the same
	try(t, c, Free, 24, 1, true)   // and another's stays
	probe(t, c, 24, 1, true)
}

func TestFailedModeChangeKeepsLock(t *testing.T) {
	rs := openRanges(t, openTest(t), 3)
	a, b, c := rs[0], rs[1], rs[2]
	try(t, a, Read, 5, 1, true)
	try(t, b, Read, 5, 1, true)
	try(t, a, Write, 5, 1, false)
	try(t, b, Free, 5, 1, true)
	try(t, c, Write, 5, 1, false) // a reads on
	probe(t, c, 5, 1, true)
	try(t, a, Write, 5, 1, true)
	probe(t, c, 5, 1, true)
}

func TestModeChangeIsAtomic(t *testing.T) {
	dir := fastTemp(t)
	d := openAgain(t, filepath.Join(dir, "leat"))
	rs := openRanges(t, d, 2)
	try(t, rs[0], Read, 7, 1, true)
	child := proctest.New("hammer", dir).Start(t)
	await(t, "the competitor tries", func() bool { return exists(filepath.Join(dir, "hammering")) })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var tries, got atomic.Int64
	wg.Go(func() { // and one in this process
		for {
			select {
			case <-stop:
				return
			default:
			}
			if ok, err := rs[1].Try(Write, 7, 1); ok || err != nil {
				got.Add(1)
				return
			}
			tries.Add(1)
		}
	})
	rounds := 200_000
	if testing.Short() {
		rounds = 20_000
	}
	for range rounds {
		// Neither do the ways up and down fail, for what tries and fails holds nothing.
		try(t, rs[0], Write, 7, 1, true)
		try(t, rs[0], Read, 7, 1, true)
	}
	close(stop)
	wg.Wait()
	if got.Load() > 0 || exists(filepath.Join(dir, "got")) {
		t.Error("a competitor has come in between")
	}
	t.Logf("%d changes, %d tries of one competitor", 2*rounds, tries.Load())
	try(t, rs[0], Free, 7, 1, true)
	awaitEnd(t, child) // which gets it now
	if !exists(filepath.Join(dir, "got")) {
		t.Error("the competitor did not get it afterwards")
	}
}

func TestProbeTakesNoLock(t *testing.T) {
	rs := openRanges(t, openTest(t), 3)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var free, held atomic.Int64
	for _, r := range rs[1:] {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch locked, err := r.Probe(0, 10); {
				case err != nil:
					t.Error(err)
					return
				case locked:
					held.Add(1)
				default:
					free.Add(1)
				}
			}
		})
	}
	for range 20_000 {
		try(t, rs[0], Write, 5, 1, true)
		try(t, rs[0], Free, 5, 1, true)
	}
	// Both states are seen, however the goroutines are scheduled.
	try(t, rs[0], Free, 5, 1, true)
	await(t, "free", func() bool { return free.Load() > 0 })
	try(t, rs[0], Write, 5, 1, true)
	await(t, "held", func() bool { return held.Load() > 0 })
	close(stop)
	wg.Wait()
}

func TestCloseEndsOnlyOwnLocks(t *testing.T) {
	d := openTest(t)
	rs := openRanges(t, d, 2)
	try(t, rs[0], Write, 0, 10, true)
	other := ok(d.OpenRanges("locks"))(t)
	try(t, other, Write, 20, 10, true)
	must(t, other.Close()) // POSIX locks of the whole process would end here
	try(t, rs[1], Write, 20, 10, true)
	try(t, rs[1], Write, 0, 1, false)
	wantErr(t, other.Close(), unix.EBADF)
	_, err := other.Try(Write, 0, 1)
	wantErr(t, err, unix.EBADF)
}

func TestChildProcessesDoNotKeepRangeLocks(t *testing.T) {
	d := openTest(t)
	startChildren(t)
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	for range rounds {
		r := ok(d.OpenRanges("locks"))(t)
		try(t, r, Write, 5, 10, true)
		must(t, r.Close())
		if t.Failed() {
			return
		}
		// Nor the file.
		must(t, ok(d.LockExclusive("locks"))(t).Release())
	}
}

func TestDescriptorsAreCloseOnExec(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		leave(t, d, "a", "whole")
		sub := ok(d.MakeSub("sub"))(t)
		defer func() { must(t, sub.Close()) }()
		published := ok(d.Publish("b", 0o600, nil))(t)
		shared := ok(d.LockShared("a", false))(t)
		of := ok(d.Ranges(shared.Fd(), "a"))(t)
		defer func() { must(t, of.Close()) }()
		for what, fd := range map[string]int{
			"a root": d.fd, "a directory": sub.fd, "a published file": published.fd, "a shared file": shared.fd,
			"locks": openRanges(t, d, 1)[0].fd, "locks of a file": of.fd,
		} {
			if flags := ok(unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0))(t); flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s is not closed by exec", what)
			}
		}
		// A mapping can't unlock: only exec keeps its lock from a program that was started before
		// it was made.
		sleeper := exec.Command("sleep", "60")
		must(t, sleeper.Start())
		defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
		must(t, ok(shared.Map(5, false))(t).Close())
		if !sweep(t, d, "a") {
			t.Error("a program that was started keeps a closed mapping's hold")
		}
		must(t, published.Release())
	})
}

func TestRangesUpToMaxInt64(t *testing.T) {
	rs := openRanges(t, openTest(t), 2)
	try(t, rs[0], Write, math.MaxInt64, 1, true)
	try(t, rs[0], Write, 0, 1, true)
	try(t, rs[1], Write, math.MaxInt64, 1, false)
	try(t, rs[1], Write, 1, math.MaxInt64-1, true)
	probe(t, rs[1], math.MaxInt64, 1, true)
	for _, bad := range [][2]int64{{0, 0}, {5, 0}, {5, -1}, {-1, 1}, {-1, 5}, {math.MaxInt64, 2}, {1 << 62, 1<<62 + 1},
		{math.MinInt64, math.MaxInt64}} {
		for _, mode := range []Mode{Free, Read, Write} {
			if got, err := rs[0].Try(mode, bad[0], bad[1]); got || err == nil || !strings.Contains(err.Error(),
				fmt.Sprintf("%d numbers from %d", bad[1], bad[0])) {
				t.Errorf("%d numbers from %d: %v, %v", bad[1], bad[0], got, err)
			}
		}
		if _, err := rs[0].Probe(bad[0], bad[1]); err == nil {
			t.Errorf("%d numbers from %d are probed", bad[1], bad[0])
		}
	}
	probe(t, rs[1], 0, 1, true) // nothing was freed
}

func TestKilledProcessReleasesRangeLocks(t *testing.T) {
	dir := fastTemp(t)
	d := openAgain(t, filepath.Join(dir, "leat"))
	c := proctest.New("ranges", dir).Start(t)
	await(t, "the child has locked", func() bool { return exists(filepath.Join(dir, "ready")) })
	r := openRanges(t, d, 1)[0]
	try(t, r, Read, 9, 1, false)
	probe(t, r, 9, 1, true)
	start := time.Now()
	c.Kill()
	await(t, "the lock ends", func() bool { return ok(r.Try(Write, 0, 10))(t) })
	t.Logf("free %v after SIGKILL", time.Since(start))
	awaitKilled(t, c)
}

func TestOpenRangesCreatesEmptyPrivateFile(t *testing.T) {
	d := openTest(t)
	r1 := ok(d.OpenRanges("locks"))(t)
	r2 := ok(d.OpenRanges("locks"))(t)
	try(t, r1, Write, 1<<40, 100, true)
	if fi := ok(os.Stat(d.FilePath("locks")))(t); fi.Size() != 0 || fi.Mode() != 0o600 {
		t.Errorf("%d bytes, mode %v", fi.Size(), fi.Mode())
	}
	try(t, r2, Read, 1<<40, 1, false)
	must(t, r1.Close())
	try(t, r2, Read, 1<<40, 1, true)
	must(t, r2.Close())
}

func TestRemovedRangesAreGone(t *testing.T) {
	d := openTest(t)
	r := openRanges(t, d, 1)[0]
	try(t, r, Write, 0, 1, true)
	if r.Gone() {
		t.Fatal("gone from the beginning")
	}
	must(t, d.Remove("locks"))
	if !r.Gone() {
		t.Fatal("not gone")
	}
	again := openRanges(t, d, 1)[0]
	try(t, again, Write, 0, 1, true) // another file
	if again.Gone() || !r.Gone() {
		t.Error("the new one is gone, or the old one is not")
	}
}

func TestRangesOfOpenFileEndWithThem(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		var mine *Ranges
		h, err := d.Publish("a", 0o600, func(fd int) (err error) { // which has no name yet
			mine, err = d.Ranges(fd, "a")
			if err == nil {
				_, err = mine.Try(Write, 0, 1)
			}
			return err
		})
		must(t, err)
		if mine.Gone() {
			t.Error("gone, though it has its name now")
		}
		other := ok(d.Ranges(h.Fd(), "a"))(t)
		try(t, other, Write, 0, 1, false)
		must(t, h.Release())
		try(t, other, Write, 0, 1, false)
		if !sweep(t, d, "a") || !mine.Gone() {
			t.Error("the file is held by the locks on its numbers, which it is not to be")
		}
		must(t, mine.Close())
		try(t, other, Write, 0, 1, true)
		must(t, other.Close())

		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		defer w.Close()
		_, err = d.Ranges(int(w.Fd()), "pipe")
		wantErr(t, err, ErrForeign)
		_, err = d.Ranges(-1, "nothing")
		wantErr(t, err, os.ErrNotExist)
	})
}

func TestRangesAreSafeForConcurrentUse(t *testing.T) {
	rs := openRanges(t, openTest(t), 2)
	var wg sync.WaitGroup
	for i := range int64(8) {
		wg.Go(func() {
			for range 500 {
				for _, mode := range []Mode{Read, Write, Free} {
					if got, err := rs[0].Try(mode, i*2, 1); !got || err != nil {
						t.Errorf("%v, %v", got, err)
					}
					if _, err := rs[1].Probe(i*2, 1); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	probe(t, rs[1], 0, 100, false)
}

func TestOpenRangesRestoresRights(t *testing.T) {
	d := openTest(t)
	old := unix.Umask(0o777)
	r, err := d.OpenRanges("locks")
	unix.Umask(old)
	must(t, err)
	defer r.Close()
	if fi := ok(os.Stat(d.FilePath("locks")))(t); fi.Mode() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
}
