//go:build unix

package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

func TestPublishedFileAppearsCompleteAndLocked(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		old := unix.Umask(0o777)
		h, err := d.Publish("a", 0o640, func(fd int) error {
			if err := text("half")(fd); err != nil {
				return err
			}
			if exists(d.FilePath("a")) {
				t.Error("it has its name before it is complete")
			}
			for _, name := range names(t, d) { // hidden names are locked
				if sweep(t, d, name) {
					t.Errorf("%s was swept while it was written", name)
				}
			}
			return text(" and whole")(fd)
		})
		unix.Umask(old)
		must(t, err)
		if diff := cmp.Diff([]string{"a"}, names(t, d)); diff != "" {
			t.Error(diff)
		}
		if got := content(t, d, "a"); got != "half and whole" {
			t.Errorf("it holds %q", got)
		}
		fi := ok(os.Lstat(d.FilePath("a")))(t)
		if fi.Mode() != 0o640 {
			t.Errorf("its mode is %v", fi.Mode())
		}
		var st unix.Stat_t
		must(t, unix.Fstat(h.Fd(), &st))
		var named unix.Stat_t
		must(t, unix.Lstat(d.FilePath("a"), &named))
		if h.name != "a" || h.ID() != idOf(&st) || h.ID() != idOf(&named) || st.Nlink != 1 {
			t.Errorf("name %q, id %v, of the descriptor %v, of the name %v, %d links", h.name, h.ID(), idOf(&st),
				idOf(&named), st.Nlink)
		}
		if sweep(t, d, "a") {
			t.Error("it was swept while it was held")
		}
		must(t, ok(d.LockShared("a", false))(t).Release()) // the hold is a shared one
		must(t, h.Release())
		if !sweep(t, d, "a") || len(names(t, d)) > 0 {
			t.Error("it was not swept after it was released")
		}
	})
}

func TestPublishRefusesTakenName(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		leave(t, d, "a", "old")
		_, err := d.Publish("a", 0o600, text("new"))
		wantErr(t, err, fs.ErrExist)
		if content(t, d, "a") != "old" || len(names(t, d)) != 1 {
			t.Errorf("%q holds %q", names(t, d), content(t, d, "a"))
		}
	})
}

func TestFailedFillLeavesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		full := errors.New("no space")
		before := openFiles(t)
		_, err := d.Publish("a", 0o600, func(int) error { return full })
		wantErr(t, err, full)
		_, created, err := d.LockOrPublish("a", 0o600, func(int) error { return full })
		wantErr(t, err, full)
		if created || len(names(t, d)) > 0 {
			t.Errorf("created %v, left %q", created, names(t, d))
		}
		if after := openFiles(t); after != before {
			t.Errorf("%d files are open, %d were", after, before)
		}
	})
}

// openFiles counts this process's descriptors.
func openFiles(t testing.TB) int {
	entries, err := os.ReadDir("/dev/fd")
	must(t, err)
	return len(entries)
}

func TestOnePublisherOfANameSucceeds(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		for round := range 100 {
			name := fmt.Sprint(round)
			var won, lost atomic.Int64
			var wg sync.WaitGroup
			for who := range 4 {
				wg.Go(func() {
					h, err := d.Publish(name, 0o600, text(fmt.Sprint(who)))
					switch {
					case err == nil:
						won.Add(1)
						if got := content(t, d, name); got != fmt.Sprint(who) {
							t.Errorf("%d published, %q is there", who, got)
						}
						if err := h.Release(); err != nil {
							t.Error(err)
						}
					case errors.Is(err, fs.ErrExist):
						lost.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 || lost.Load() != 3 {
				t.Fatalf("%d succeeded, %d came late", won.Load(), lost.Load())
			}
		}
	})
}

func TestHiddenFileSweptBeforeLockIsCreatedAgain(t *testing.T) {
	for _, point := range []string{"tempfile.created", "tempfile.locked"} {
		d := openTest(t)
		calls, swept, filled := 0, 0, 0
		fault.Set(func(at string) error {
			switch at {
			case "tempfile.no O_TMPFILE":
				return errors.New("not here")
			case point:
				calls++
				if calls > 3 {
					return nil
				}
				for _, name := range names(t, d) {
					// Not Sweep, whose own points would come here.
					h, err := d.LockExclusive(name)
					if errors.Is(err, ErrLocked) {
						continue
					}
					must(t, err)
					must(t, d.Remove(name))
					must(t, h.Release())
					swept++
				}
			}
			return nil
		})
		h, err := d.Publish("a", 0o600, func(fd int) error { filled++; return text("whole")(fd) })
		fault.Set(nil)
		must(t, err)
		wantSwept := map[string]int{"tempfile.created": 3, "tempfile.locked": 0}[point]
		if swept != wantSwept || filled != 1 {
			t.Errorf("%s: swept %d times, not %d; filled %d times", point, swept, wantSwept, filled)
		}
		if content(t, d, "a") != "whole" || len(names(t, d)) != 1 {
			t.Errorf("%s: %q", point, names(t, d))
		}
		must(t, h.Release())
	}
}

func TestHiddenFileLockedBySweepIsCreatedAgain(t *testing.T) {
	d := openTest(t)
	var sweeper *Lock
	fault.Set(func(at string) error {
		switch at {
		case "tempfile.no O_TMPFILE":
			return errors.New("not here")
		case "tempfile.created":
			if sweeper == nil {
				sweeper = ok(d.LockExclusive(names(t, d)[0]))(t)
			}
		}
		return nil
	})
	h, err := d.Publish("a", 0o600, text("whole"))
	fault.Set(nil)
	must(t, err)
	if h.ID() == sweeper.ID() {
		t.Error("the file that a sweeper had was published")
	}
	must(t, sweeper.Release())
	must(t, h.Release())
	if diff := cmp.Diff([]string{"a"}, names(t, d)); diff != "" {
		t.Error(diff)
	}
}

func TestSweepIgnoresFileRemovedByItsWriter(t *testing.T) {
	d := openTest(t)
	leave(t, d, ".new-x", "")
	removed, err := d.SweepWith(".new-x", func(int) error { return d.Remove(".new-x") })
	if removed || err != nil {
		t.Errorf("%v, %v", removed, err)
	}
}

func TestLockOrPublishReportsCreation(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		h1, created, err := d.LockOrPublish("a", 0o600, text("first"))
		must(t, err)
		if !created {
			t.Error("the first one did not create it")
		}
		h2, created, err := d.LockOrPublish("a", 0o600, func(int) error { t.Error("filled again"); return nil })
		must(t, err)
		if created || h1.ID() != h2.ID() {
			t.Error("the second one created it")
		}
		if _, err := unix.Pwrite(h2.Fd(), []byte("F"), 0); err != nil { // opened for writing
			t.Error(err)
		}
		if content(t, d, "a") != "First" {
			t.Error("not written")
		}
		must(t, h1.Release())
		must(t, h2.Release())
	})
}

func TestConcurrentLockOrPublishCreateOneFile(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d := openTest(t)
		for round := range 100 {
			name := fmt.Sprint(round)
			var mu sync.Mutex
			var ids []ID
			var created int
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					h, c, err := d.LockOrPublish(name, 0o600, text("whole"))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					ids = append(ids, h.ID())
					if c {
						created++
					}
				})
			}
			wg.Wait()
			if created != 1 || len(slices.Compact(ids)) != 1 {
				t.Fatalf("created %d times: %v", created, ids)
			}
			if sweep(t, d, name) {
				t.Fatal("swept while 4 hold it")
			}
		}
	})
}
