//go:build linux

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/proctest"
)

func handleOf(t testing.TB, c *Cache) string {
	t.Helper()
	return string(ok(c.Handle())(t))
}

func awaitKilled(t testing.TB, c *proctest.Command) {
	t.Helper()
	if killed, out, err := c.Wait(); !killed {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
}

func awaitEnd(t testing.TB, c *proctest.Command) string {
	t.Helper()
	_, out, err := c.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// pfio: a killed put, and get returns another entry's bytes.
func TestRandomKills(t *testing.T) {
	kills := 400
	if testing.Short() {
		kills = 30
	}
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		t.Run("fails: "+way, func(t *testing.T) {
			failAt(t, way, errTest)
			const n, writers = 3000, 4
			dir := inMemory(t)
			var killed, verified atomic.Int64
			filled := int64(0)
			// New caches, since a full one is written to no more.
			for killed.Load() < int64(kills) {
				func() {
					c := ok(Create(n, &Options{Dir: dir}))(t)
					h := handleOf(t, c)
					var stop atomic.Bool
					var wg sync.WaitGroup
					for range writers {
						wg.Go(func() {
							for !stop.Load() {
								p := proctest.New("put random", h, way).Start(t)
								life := int64(25 * time.Millisecond)
								if verified.Load() == 0 { // on a slow machine none may live long enough to put anything
									life <<= min(killed.Load()/8, 6)
								}
								time.Sleep(time.Duration(rand.Int64N(life)))
								p.Kill()
								if was, out, err := p.Wait(); !was {
									t.Errorf("a writer ended by itself: %v\n%s", err, out)
									return
								}
								killed.Add(1)
							}
						})
					}
					wg.Go(func() { // the reader, by another mapping
						readEntries(t, h, n, &stop, &verified, isContent)
					})
					time.Sleep(300 * time.Millisecond)
					for end := time.Now().Add(20 * time.Second); verified.Load() == 0 && time.Now().Before(end) &&
						!t.Failed(); {
						time.Sleep(10 * time.Millisecond)
					}
					stop.Store(true)
					wg.Wait()
					for i := range int64(n) {
						if err := c.View(i,
							func(b []byte) error { return isContent(i, b) }); err != nil && !errors.Is(err, ErrMiss) {
							t.Error(err)
						}
					}
					rep := check(t, c)
					if filled += rep.FilledSlots; rep.Bad != 0 {
						t.Errorf("%+v", rep)
					}
					if s := stats(t, c); s.Bad != 0 || s.Faults != 0 {
						t.Errorf("%+v", s)
					}
					must(t, c.Freeze(t.Context())) // no lock of a dead writer stands in the way
					must(t, c.Close())
				}()
				if t.Failed() {
					return
				}
			}
			if left := allNames(t, dir); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if filled == 0 { // of one cache no writer may have lived long enough
				t.Error("nothing was put")
			}
			t.Logf("%d kills, %d entries verified", killed.Load(), verified.Load())
		})
	}
}

func TestKillWriterAtEachPoint(t *testing.T) {
	for point, visible := range map[string]bool{
		"cache.reserved": false, "cache.wrote": false, "cache.written": false, "cache.published": true,
		"cache.index": false, "cache.write": false, "cache.publish": false,
	} {
		t.Run(point, func(t *testing.T) {
			c := create(t, 10, nil)
			const i = 4
			awaitKilled(t, proctest.New("put once", handleOf(t, c), "cache.short write", fmt.Sprint(i)).KillAt(point,
				1).Start(t))
			if visible {
				wantEntry(t, c, i, string(content(i)))
			} else {
				wantMiss(t, c, i)
				if !put(t, c, i, string(content(i))) {
					t.Error("the next one was not stored")
				}
				wantEntry(t, c, i, string(content(i)))
			}
			rep := check(t, c)
			space := (&record{length: int64(len(content(i)))}).space()
			dead := map[bool]int64{true: space}[point != "cache.index" && !visible]
			if !rep.OK() || rep.FilledSlots != 1 || rep.DeadBytes != dead {
				t.Errorf("%+v, not %d dead bytes", rep, dead)
			}
			must(t, c.Freeze(t.Context()))
		})
	}
}

func TestKillDuringOpen(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		for point, there := range map[string]bool{
			"tempfile.created": false, "cache.write": false, "cache.formatted": false, "tempfile.linked": true,
			"cache.named": true, "cache.reserved": true, "cache.published": true,
		} {
			t.Run(point+" "+way, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "named")
				awaitKilled(t, proctest.New("make", path, way).KillAt(point, 1).Start(t))
				if _, err := os.Lstat(path); (err == nil) != there {
					t.Errorf("the name: %v", err)
				}
				if way == "" && !there && len(allNames(t, dir)) > 0 {
					t.Errorf("left: %q", allNames(t, dir))
				}
				awaitEnd(t, proctest.New("make", path, way).Start(t))
				c := ok(Open(path, 100, nil))(t)
				wantEntry(t, c, 3, string(content(3)))
				must(t, c.Close())
				must(t, ignore(GC(dir, false)))
				if left := allNames(t, dir); len(left) != 1 {
					t.Errorf("left: %q", left)
				}
			})
		}
	}
}

func TestKillDuringPreserve(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		for _, how := range []string{"new", "overwrite"} {
			for point, there := range map[string]bool{
				"cache.frozen": false, "cache.sealing": false, "cache.sealed": false, "cache.linked": how == "new",
				"cache.renamed": true,
			} {
				if point == "cache.renamed" && how == "new" {
					continue
				}
				t.Run(point+" "+how+" "+way, func(t *testing.T) {
					dir := t.TempDir()
					path := filepath.Join(dir, "kept")
					if how == "overwrite" {
						must(t, os.WriteFile(path, []byte("old"), 0o600))
					}
					awaitKilled(t, proctest.New("preserve", path, way, how, dir).KillAt(point, 1).Start(t))
					c, err := Load(path, nil)
					switch {
					case there:
						must(t, err)
						wantEntry(t, c, 3, string(content(3)))
						must(t, c.Close())
					case how == "overwrite":
						if b := ok(os.ReadFile(path))(t); string(b) != "old" {
							t.Error("the old file is damaged")
						}
					default:
						wantErr(t, err, fs.ErrNotExist)
					}
					awaitEnd(t, proctest.New("preserve", path, way, "overwrite", dir).Start(t))
					must(t, ignore(GC(dir, false)))
					if left := allNames(t, dir); len(left) != 1 {
						t.Errorf("left: %q", left)
					}
					c = ok(Load(path, nil))(t)
					if rep := check(t, c); !rep.OK() || !rep.Preserved || rep.FilledSlots != 1 {
						t.Errorf("%+v", rep)
					}
					must(t, c.Close())
				})
			}
		}
	}
}

// pfio: the file stays after SIGKILL and SIGTERM.
func TestNamelessCacheEndsWithLastHolder(t *testing.T) {
	for _, way := range []string{"", "tempfile.no O_TMPFILE"} {
		t.Run("fails: "+way, func(t *testing.T) {
			failAt(t, way, errTest)
			dir, file := inMemory(t), filepath.Join(t.TempDir(), "handle")
			maker := proctest.New("keep open", "create", file, dir, way).Start(t)
			await(t, "a handle", func() bool { _, err := os.Stat(file); return err == nil })
			h := Handle(ok(os.ReadFile(file))(t))
			c := ok(Attach(h, nil))(t)
			wantEntry(t, c, 7, string(content(7)))
			other := proctest.New("keep open", handleOf(t, c), file+"2").Start(t)
			await(t, "a handle", func() bool { _, err := os.Stat(file + "2"); return err == nil })
			maker.Kill()
			awaitKilled(t, maker)
			_, err := Attach(h, nil)
			wantErr(t, err, ErrGone)
			// It lives on in those who have it, and they give handles too.
			again := ok(Attach(Handle(ok(os.ReadFile(file+"2"))(t)), nil))(t)
			put(t, again, 8, "entry")
			wantEntry(t, c, 8, "entry")
			must(t, again.Close())
			must(t, c.Close())
			if names := allNames(t, dir); way != "" && len(names) != 1 {
				t.Errorf("removed while it is held: %q", names)
			}
			other.Kill()
			awaitKilled(t, other)
			must(t, ok(Create(1, &Options{Dir: dir}))(t).Close())
			if names := allNames(t, dir); len(names) > 0 {
				t.Errorf("left: %q", names)
			}
		})
	}
}

func TestWriteToView(t *testing.T) {
	c := create(t, 3, nil)
	put(t, c, 1, "entry")
	_, out, err := proctest.New("store", handleOf(t, c), "").Start(t).Wait()
	if err == nil || !strings.Contains(out, "write to the bytes of a View") {
		t.Errorf("%v\n%s", err, out)
	}
	wantEntry(t, c, 1, "entry")
}

func TestSmallAddressSpace(t *testing.T) {
	awaitEnd(t, proctest.New("few addresses", inMemory(t)).Start(t))
}

func TestFileLimit(t *testing.T) {
	awaitEnd(t, proctest.New("file limit", inMemory(t), t.TempDir()).Start(t))
}
