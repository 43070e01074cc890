//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"

	"leat/internal/proctest"
)

func TestSharedAndExclusiveLocks(t *testing.T) {
	d := openTest(t)
	_, err := d.LockShared("a", false)
	wantErr(t, err, fs.ErrNotExist)
	_, err = d.LockExclusive("a")
	wantErr(t, err, fs.ErrNotExist)
	leave(t, d, "a", "whole")

	r := ok(d.LockShared("a", false))(t)
	w := ok(d.LockShared("a", true))(t)
	_, err = unix.Pwrite(r.Fd(), []byte("x"), 0)
	wantErr(t, err, unix.EBADF)
	ok(unix.Pwrite(w.Fd(), []byte("W"), 0))(t)
	_, err = d.LockExclusive("a")
	wantErr(t, err, ErrLocked)
	must(t, r.Release())
	_, err = d.LockExclusive("a")
	wantErr(t, err, ErrLocked)
	must(t, w.Release())

	o := ok(d.LockExclusive("a"))(t)
	ok(unix.Pwrite(o.Fd(), []byte("W"), 0))(t)
	for _, f := range []func() (*Lock, error){
		func() (*Lock, error) { return d.LockExclusive("a") },
		func() (*Lock, error) { return d.LockShared("a", false) },
		func() (*Lock, error) { h, _, err := d.LockOrPublish("a", 0o600, nil); return h, err },
	} {
		_, err := f()
		wantErr(t, err, ErrLocked)
		if err != nil && !strings.Contains(err.Error(), d.FilePath("a")) {
			t.Errorf("no path in: %v", err)
		}
	}
	if sweep(t, d, "a") {
		t.Error("an owned file was swept")
	}
	must(t, o.Release())
	if content(t, d, "a") != "Whole" {
		t.Errorf("it holds %q", content(t, d, "a"))
	}
}

func TestLockSharedWaitsForSweep(t *testing.T) {
	d := openTest(t)
	leave(t, d, "a", "old")
	o := ok(d.LockExclusive("a"))(t)
	var once sync.Once
	fault.Set(func(point string) error {
		if point == "lockfile.waiting" {
			once.Do(func() { must(t, errors.Join(d.Remove("a"), o.Release())) })
		}
		return nil
	})
	defer fault.Set(nil)
	h, created, err := d.LockOrPublish("a", 0o600, text("new"))
	must(t, err)
	if !created || content(t, d, "a") != "new" {
		t.Errorf("created %v: %q", created, content(t, d, "a"))
	}
	must(t, h.Release())
}

func TestLockOnRemovedFileIsRepeated(t *testing.T) {
	// Between our opening and our locking it, the file is swept and the name given to another one.
	for _, open := range []string{"LockShared", "LockExclusive", "Sweep", "LockOrPublish"} {
		d := openTest(t)
		leave(t, d, "a", "old")
		first := true
		setWay("", func(point string) {
			if point == "lockfile.opened" && first {
				first = false
				must(t, d.Remove("a"))
				leave(t, d, "a", "new")
			}
		})
		var h *Lock
		var err error
		switch open {
		case "LockShared":
			h, err = d.LockShared("a", false)
		case "LockExclusive":
			h, err = d.LockExclusive("a")
		case "LockOrPublish":
			h, _, err = d.LockOrPublish("a", 0o600, text("third"))
		case "Sweep":
			_, err = d.SweepWith("a", func(fd int) error {
				b := make([]byte, 3)
				_, err := unix.Pread(fd, b, 0)
				if string(b) != "new" {
					t.Errorf("Sweep has locked %q", b)
				}
				return err
			})
		}
		setWay("", func(string) {})
		must(t, err)
		if h != nil {
			if !leadsTo(d, "a", h.ID()) {
				t.Errorf("%s holds a file that has lost its name", open)
			}
			must(t, h.Release())
		} else if len(names(t, d)) > 0 {
			t.Errorf("not swept: %q", names(t, d))
		}
	}
}

func TestRemoveIfLastRemovesWithLastHolder(t *testing.T) {
	d := openTest(t)
	h := ok(d.Publish("a", 0o600, nil))(t)
	must(t, h.Release())
	h1, h2 := ok(d.LockShared("a", false))(t), ok(d.LockShared("a", true))(t)
	if last, err := h1.RemoveIfLast(func() error { t.Error("before was called"); return nil }); last || err != nil {
		t.Errorf("the first that leaves: %v, %v", last, err)
	}
	called := false
	last, err := h2.RemoveIfLast(func() error {
		called = true
		if !exists(d.FilePath("a")) {
			t.Error("the name is free before before was called")
		}
		// Nobody else can come now.
		_, err := d.LockShared("a", false)
		wantErr(t, err, ErrLocked)
		if sweep(t, d, "a") {
			t.Error("swept")
		}
		return nil
	})
	must(t, err)
	if !last || !called || exists(d.FilePath("a")) {
		t.Errorf("last %v, before called %v, there %v", last, called, exists(d.FilePath("a")))
	}
	// One who owns a file is its last holder too.
	leave(t, d, "b", "")
	if last := ok(ok(d.LockExclusive("b"))(t).RemoveIfLast(nil))(t); !last || exists(d.FilePath("b")) {
		t.Error("an owner did not remove the file")
	}
}

func TestRemoveIfLastReturnsErrorOfBefore(t *testing.T) {
	d := openTest(t)
	bad := errors.New("can't remove what belongs to it")
	last, err := ok(d.Publish("a", 0o600, nil))(t).RemoveIfLast(func() error { return bad })
	wantErr(t, err, bad)
	if !last {
		t.Error("not the last")
	}
	leave(t, d, "b", "whole")
	removed, err := d.SweepWith("b", func(fd int) error {
		b := make([]byte, 9)
		n, _ := unix.Pread(fd, b, 0)
		if string(b[:n]) != "whole" {
			t.Errorf("the descriptor leads to %q", b[:n])
		}
		return bad
	})
	wantErr(t, err, bad)
	if removed || !exists(d.FilePath("b")) {
		t.Error("removed, though what belongs to it is still there")
	}
	if !sweep(t, d, "b") { // nor is it held any more
		t.Error("not swept the next time")
	}
}

func TestSweepRemovesUnlockedFilesWithoutWaiting(t *testing.T) {
	d := openTest(t)
	if sweep(t, d, "none") {
		t.Error("swept what is not there")
	}
	h := ok(d.Publish("a", 0o600, nil))(t)
	start := time.Now()
	for range 1000 {
		if sweep(t, d, "a") {
			t.Fatal("swept what is held")
		}
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("1000 sweeps of a held file took %v", took)
	}
	must(t, h.Release())
	if !sweep(t, d, "a") || exists(d.FilePath("a")) {
		t.Error("not swept")
	}
}

// leaver shares all names, waits for the others, and leaves one after the other; it prints of which
// it was the last.
func leaver(args []string) error {
	dir, me, n := args[0], args[1], 0
	if _, err := fmt.Sscan(args[2], &n); err != nil {
		return err
	}
	d, err := OpenRoot(filepath.Join(dir, "leat"), "LEAT_RUNTIME_DIR")
	if err != nil {
		return err
	}
	holds := make([]*Lock, n)
	for i := range holds {
		if holds[i], err = d.LockShared(fmt.Sprint(i), false); err != nil {
			return err
		}
	}
	if err := mark(filepath.Join(dir, "ready"+me)); err != nil {
		return err
	}
	for !exists(filepath.Join(dir, "go")) {
		runtime.Gosched()
	}
	for i, h := range holds {
		last, err := h.RemoveIfLast(func() error {
			fd, err := fdio.Open(d.fd, fmt.Sprint(i), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("the name is gone before the end: %w", err)
			}
			defer unix.Close(fd)
			if err := fdio.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
				return fmt.Errorf("another can share it: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if last {
			fmt.Println(i)
		}
	}
	return nil
}

func TestExactlyOneProcessIsLast(t *testing.T) {
	dir := fastTemp(t)
	d := openAgain(t, filepath.Join(dir, "leat"))
	const n = 200
	for i := range n {
		leave(t, d, fmt.Sprint(i), "")
	}
	var children []*proctest.Command
	for i := range 4 {
		children = append(children, proctest.New("leaver", dir, fmt.Sprint(i), fmt.Sprint(n)).Start(t))
	}
	for i := range children {
		await(t, "a child holds all", func() bool { return exists(filepath.Join(dir, fmt.Sprint("ready", i))) })
	}
	must(t, mark(filepath.Join(dir, "go")))
	last := map[string]int{}
	for _, c := range children {
		for _, name := range strings.Fields(awaitEnd(t, c)) {
			last[name]++
		}
	}
	for i := range n {
		if last[fmt.Sprint(i)] != 1 {
			t.Errorf("of file %d, %d were the last", i, last[fmt.Sprint(i)])
		}
	}
	if left := names(t, d); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

func TestConcurrentRemovalsAndSweepsLeaveNothing(t *testing.T) {
	d := openTest(t)
	for round := range 300 {
		name := fmt.Sprint(round)
		leave(t, d, name, "")
		holds := make([]*Lock, 3)
		for i := range holds {
			holds[i] = ok(d.LockShared(name, false))(t)
		}
		var lasts, swept atomic.Int64
		var wg sync.WaitGroup
		for _, h := range holds {
			wg.Go(func() {
				last, err := h.RemoveIfLast(nil)
				if err != nil {
					t.Error(err)
				}
				if last {
					lasts.Add(1)
				}
			})
		}
		wg.Go(func() {
			for range 20 {
				if sweep(t, d, name) {
					swept.Add(1)
				}
			}
		})
		wg.Wait()
		// Whoever fails to get the file alone fails because of one who has it and comes later, or
		// who removes it.
		if lasts.Load()+swept.Load() != 1 || exists(d.FilePath(name)) {
			t.Fatalf("removed %d times by leaving, %d by sweeping; there: %v", lasts.Load(), swept.Load(),
				exists(d.FilePath(name)))
		}
	}
}

// holder holds a file in one of three ways until it is killed.
func holder(args []string) error {
	dir, how := args[0], args[1]
	d, err := OpenRoot(filepath.Join(dir, "leat"), "LEAT_RUNTIME_DIR")
	if err != nil {
		return err
	}
	switch how {
	case "share":
		_, err = d.LockShared("a", false)
	case "own":
		_, err = d.LockExclusive("a")
	case "map":
		var h *Lock
		if h, err = d.LockShared("a", false); err == nil {
			_, err = h.Map(1, false)
		}
	}
	if err != nil {
		return err
	}
	runtime.GC()
	if err := mark(filepath.Join(dir, "ready"+how)); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

func TestKilledProcessReleasesItsLocks(t *testing.T) {
	for _, how := range []string{"share", "own", "map"} {
		t.Run(how, func(t *testing.T) {
			dir := fastTemp(t)
			d := openAgain(t, filepath.Join(dir, "leat"))
			leave(t, d, "a", "whole")
			c := proctest.New("holder", dir, how).Start(t)
			await(t, "the child holds it", func() bool { return exists(filepath.Join(dir, "ready"+how)) })
			if sweep(t, d, "a") {
				t.Fatal("swept while a process held it")
			}
			start := time.Now()
			c.Kill()
			await(t, "the killed process's hold ends", func() bool { return sweep(t, d, "a") })
			t.Logf("free %v after SIGKILL", time.Since(start))
			awaitKilled(t, c)
		})
	}
}

func TestGarbageCollectorKeepsLocks(t *testing.T) {
	d := openTest(t)
	func() {
		for i := range 100 {
			h := ok(d.Publish(fmt.Sprint(i), 0o600, text("x")))(t)
			if i%2 == 1 && mappingCarriesLock {
				ok(h.Map(1, false))(t)
			}
		}
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	for i := range 100 {
		if sweep(t, d, fmt.Sprint(i)) {
			t.Fatalf("the hold of file %d was lost", i)
		}
	}
}

// startChildren starts other programs, one after the other, until the test ends.
func startChildren(t *testing.T) {
	bin, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var started atomic.Int64
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := exec.Command(bin).Run(); err != nil {
					t.Error(err)
					return
				}
				started.Add(1)
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
		t.Logf("%d programs were started meanwhile", started.Load())
	})
}

func TestChildProcessesDoNotKeepReleasedLock(t *testing.T) {
	d := openTest(t)
	leave(t, d, "a", "")
	// One that stays.
	h := ok(d.LockShared("a", false))(t)
	sleeper := exec.Command("sleep", "60")
	must(t, sleeper.Start())
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	must(t, h.Release())
	must(t, ok(d.LockExclusive("a"))(t).Release())
	// And many that have just forked, with all descriptors until their exec.
	startChildren(t)
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	for i := range rounds {
		h, err := d.LockShared("a", true)
		if err != nil {
			t.Fatal(i, err)
		}
		must(t, h.Release())
		h, err = d.LockExclusive("a")
		if err != nil {
			t.Fatal(i, err)
		}
		must(t, h.Release())
	}
	if _, err := os.Stat(d.FilePath("a")); err != nil {
		t.Error(err)
	}
}
