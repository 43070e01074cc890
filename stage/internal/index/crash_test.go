//go:build linux

package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/proctest"
)

// first is how many of the points only the one passes who comes first.
const first = 3

// points are those of this package and of what the tests do at a place, at which a process that
// does everything is killed, with how often it passes each at least.
var points = []struct {
	name   string
	passes int
}{
	{"index.formatting", 1}, {"index.rebuilt", 1}, {"index.grown", 1}, {"index.joining", 1},
	{"index.reserved", 12}, {"index.publishing", 10},
	{"index.linked", 10}, {"index.published", 10}, {"index.marked", 3}, {"index.freed", 6}, {"index.unlinked", 6},
	{"index.releasing", 2},
	{"test.writing", 11}, {"test.removed", 8}, {"tempfile.linked", 1}, {"lockfile.last", 1}, {"lockfile.left", 1},
}

// walk does everything once, in a fixed order.
func walk(args []string) error {
	g, err := joinGame(args[0])
	if err != nil {
		return err
	}
	copyTo := func(n int, publish bool) error {
		unlock, ok, err := g.l.LockKey(keyOf(n))
		if !ok || err != nil {
			return fmt.Errorf("the key of object %d is locked: %w", n, err)
		}
		defer unlock()
		space, err := g.reserve(3 * unit)
		if space == nil {
			return fmt.Errorf("no space: %w", err)
		}
		if !space.Grow(unit, gameLimits) {
			return errors.New("no space to grow")
		}
		space.Shrink(unit)
		id, err := g.l.NextPlace()
		if err != nil {
			return err
		}
		o := g.object(n, id, 2, 500)
		space.Writes(o.Place)
		if err := g.f.write(o); err != nil || !publish {
			return err
		}
		e, err := g.l.Publish(space, o)
		if err == nil {
			err = g.f.check(e.Object)
			e.Unpin()
		}
		return err
	}
	for n := range 8 {
		if err := copyTo(n, true); err != nil {
			return err
		}
	}
	for n := range 2 { // two new versions, two that stay under way
		if err := errors.Join(copyTo(n, true), copyTo(20+n, false)); err != nil {
			return err
		}
	}
	e, err := g.l.Find(keyOf(7))
	if e == nil {
		return fmt.Errorf("object 7 is not found: %w", err)
	}
	e.Discard()
	_, before := g.l.Taken()
	if _, err := g.l.Evict(func() bool { _, now := g.l.Taken(); return now <= before-5 }); err != nil {
		return err
	}
	if _, err := e.Drop(); err != nil {
		return err
	}
	return g.leave()
}

// opener opens a directory and closes it.
func opener(args []string) error {
	g, err := joinGame(args[0])
	if err != nil {
		return err
	}
	return g.leave()
}

// step has a process that is still there use everything, and fails where something hinders it.
func step(t *testing.T, a *arena, g *game) {
	t.Helper()
	begun := time.Now()
	if err := g.play(rand.New(rand.NewPCG(1, 2)), 200); err != nil {
		t.Errorf("one who lives on: %v", err)
	}
	if took := time.Since(begun); took > slowest {
		t.Errorf("200 steps of one who lives on took %v", took)
	}
	if err := a.look(); err != nil {
		t.Error(err)
	}
}

func TestKillAtEachPoint(t *testing.T) {
	for i, p := range points {
		for _, shared := range []bool{false, true} {
			if shared && i < first {
				continue
			}
			t.Run(fmt.Sprintf("%s, with another: %v", p.name, shared), func(t *testing.T) {
				passes := []int{1}
				if p.passes > 1 {
					passes = append(passes, 2+rand.IntN(p.passes-1))
				}
				for _, n := range passes {
					a := newArena(t)
					var g *game
					if shared {
						g = ok(joinGame(a.dir))(t)
					}
					killed, out, err := proctest.New("walk", a.dir).KillAt(p.name, n).Start(t).Wait()
					if !killed {
						t.Fatalf("not killed at pass %d: %v\n%s", n, err, out)
					}
					if err := a.look(); err != nil {
						t.Error(err)
					}
					if shared {
						step(t, a, g)
						must(t, g.leave())
					}
					a.wantExact()
					g = ok(joinGame(a.dir))(t)
					step(t, a, g)
					must(t, g.leave())
					a.wantExact()
				}
			})
		}
	}
}

func TestKillWhileRecordingReboot(t *testing.T) {
	a := newArena(t)
	if _, out, err := proctest.New("walk", a.dir).Start(t).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := ok(joinGame(a.dir))(t)
	g.l.h.boot[5]++
	must(t, g.leave())
	for _, point := range []string{"index.booting", "index.rebuilt"} {
		if killed, out, err := proctest.New("opener", a.dir).KillAt(point, 1).Start(t).Wait(); !killed {
			t.Fatalf("not killed: %v\n%s", err, out)
		}
	}
	g = ok(joinGame(a.dir))(t)
	count := 0
	must(t, g.l.Each(func(o Object) bool {
		if count++; o.Sound {
			t.Errorf("%s is taken for sound", o.Name)
		}
		return true
	}))
	if count == 0 {
		t.Error("no object is left")
	}
	must(t, g.leave())
	a.wantExact()
}

func TestPlayerCompletes(t *testing.T) {
	a := newArena(t)
	for range 2 {
		if _, out, err := proctest.New("walk", a.dir).Start(t).Wait(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		a.wantExact()
	}
}

func TestKillDuringSweep(t *testing.T) {
	for _, point := range []string{"index.releasing", "test.removed", "test.tidying", "index.swept",
		"index.rebuilt", "lockfile.sweeping", "lockfile.swept", "index.joining", "lockfile.last"} {
		for _, shared := range []bool{false, true} {
			if shared && (point == "index.rebuilt" || point == "test.tidying") {
				continue
			}
			t.Run(fmt.Sprintf("%s, with another: %v", point, shared), func(t *testing.T) {
				a := newArena(t)
				var g *game
				if shared {
					g = ok(joinGame(a.dir))(t)
				}
				// One that leaves copies under way, published bytes that nobody knows, and pins.
				for _, at := range []string{"lockfile.last", "index.publishing", "index.published", "index.unlinked"} {
					if killed, out, err := proctest.New("walk", a.dir).KillAt(at, 1).Start(t).Wait(); !killed {
						t.Fatalf("not killed: %v\n%s", err, out)
					}
					if at != "lockfile.last" {
						continue
					}
					if killed, out, err := proctest.New("opener", a.dir).KillAt(point,
						1).Start(t).Wait(); !killed && point != "test.tidying" {
						t.Fatalf("not killed: %v\n%s", err, out)
					}
				}
				killed, out, err := proctest.New("opener", a.dir).KillAt(point, 1).Start(t).Wait()
				if !killed && point != "index.releasing" && point != "test.removed" {
					t.Fatalf("not killed: %v\n%s", err, out)
				}
				if err := a.look(); err != nil {
					t.Error(err)
				}
				if shared {
					step(t, a, g)
					must(t, g.leave())
				}
				a.wantExact()
			})
		}
	}
}

func TestRandomKills(t *testing.T) {
	rounds, kills := 5, 40
	if testing.Short() {
		rounds, kills = 1, 20
	}
	a := newArena(t)
	var all, timed int64
	var looks atomic.Int64
	for range rounds {
		a.again()
		var count, byTime atomic.Int64
		done := make(chan struct{})
		var wg, monitor sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				for count.Load() < int64(kills) && !t.Failed() {
					c := proctest.New("player", a.dir, strconv.Itoa(n), strconv.FormatUint(rand.Uint64(), 10))
					lives := 300 * time.Millisecond // who does not come to its point
					if rand.IntN(3) == 0 {
						lives = time.Duration(rand.Int64N(int64(60 * time.Millisecond)))
					} else {
						p := points[first+rand.IntN(len(points)-first)]
						c.KillAt(p.name, 1+rand.IntN(5*p.passes))
					}
					var timer *time.Timer
					if a.run(n, c, func() { timer = time.AfterFunc(lives, func() { byTime.Add(1); c.Kill() }) }) {
						count.Add(1)
					}
					timer.Stop()
				}
				a.stop() // those whose point does not come end well
			})
		}
		monitor.Go(func() { a.monitor(done, &looks) })
		wg.Wait()
		close(done)
		monitor.Wait()
		if t.Failed() {
			return
		}
		if looks.Load() == 0 {
			t.Error("nobody looked")
		}
		// Nobody is left: sometimes one more dies while it checks.
		if rand.IntN(2) == 0 {
			_, _, _ = proctest.New("opener", a.dir).KillAt("index.rebuilt", 1).Start(t).Wait()
		}
		a.wantExact()
		all += count.Load()
		timed += byTime.Load()
	}
	// And those that end well leave nothing to be checked.
	g := ok(joinGame(a.dir))(t)
	step(t, a, g)
	must(t, g.leave())
	a.wantExact()
	t.Logf("%d kills, at most %d of them by time; %d looks", all, timed, looks.Load())
}
