//go:build linux

package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/internal/fault"
	"leat/internal/proctest"
)

const crashNames = 60 // objects of the churn of crash tests

func crashOptions(seed uint64) *Options {
	o := Options{MaxBytes: 3 * mib, Workers: 3, RangeBytes: mib}
	if seed%3 == 2 {
		o.Keep = Drop
	}
	return quick(o)
}

// crashChild churns in a directory until it is killed, or has done enough. Its version of all
// objects is another one than that of the seed before.
func crashChild(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	p, err := Open(context.Background(), args[0], crashOptions(seed))
	if err != nil {
		return err
	}
	if err := churn(context.Background(), p, mixed("crash", int(seed%4), 3*mib/2), rand.New(rand.NewPCG(seed, 5)),
		crashNames, 150); err != nil {
		return err
	}
	return p.Close()
}

// pointsChild does the same and prints all points of the code that it passes, with how often.
func pointsChild(args []string) error {
	var mu sync.Mutex
	passed := map[string]int{}
	fault.Set(func(point string) error {
		mu.Lock()
		defer mu.Unlock()
		passed[point]++
		return nil
	})
	err := crashChild(args)
	fault.Set(nil)
	for point, n := range passed {
		fmt.Printf("%s\t%d\n", point, n)
	}
	return err
}

// swept opens a directory alone, which is to put everything right, and checks all that is there.
func swept(t testing.TB, dir string) {
	t.Helper()
	p := ok(Open(context.Background(), dir, quick(Options{MaxAge: -1})))(t)
	u := wantDisk(t, p)
	n, err := verifyAll(p, mixed("crash", 0, 3*mib/2))
	if err != nil {
		t.Error(err)
	}
	if n > int(u.Objects) { // fewer: versions that were replaced are there until their space is needed
		t.Errorf("%d objects are counted, %d found", u.Objects, n)
	}
	for directory, want := range map[string]int{"procs": 1} {
		names := slices.DeleteFunc(ok(os.ReadDir(filepath.Join(dir, "stage", directory)))(t),
			func(e os.DirEntry) bool { return e.Name() == ".leat" })
		if len(names) != want {
			t.Errorf("%d files are in %s", len(names), directory)
		}
	}
	must(t, filepath.WalkDir(filepath.Join(dir, "stage"), func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), ".") && e.Name() != ".leat" {
			t.Errorf("a temporary file stays: %s", path)
		}
		return err
	}))
	must(t, p.Close())
}

func TestKillAtEachPoint(t *testing.T) {
	watchdog(t, 5*time.Minute)
	dir := inMemory(t)
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 3))
	// A directory in which one was killed, so that the points of putting right are passed too.
	kill := func(point string, n int, seed uint64) bool {
		t.Helper()
		c := proctest.New("crash", dir, strconv.FormatUint(seed, 10)).KillAt(point, n).Start(t)
		killed, out, err := c.Wait()
		if !killed && err != nil {
			t.Fatalf("%s: %v\n%s", point, err, out)
		}
		return killed
	}
	if !kill("stage.copying", 20, 0) {
		t.Fatal("nothing was copied")
	}
	killed, out, err := proctest.New("points", dir, "1").Start(t).Wait()
	if killed || err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	points := map[string]int{}
	for _, line := range lines(out) {
		point, n, _ := strings.Cut(line, "\t")
		points[point] = ok(strconv.Atoi(n))(t)
	}
	for _, must := range []string{"stage.copying", "stage.copied", "stage.linked", "stage.punched", "stage.unlinked",
		"index.reserved", "index.publishing", "index.published", "index.marked", "index.freed",
		"index.unlinked", "index.swept", "index.rebuilt"} {
		if points[must] == 0 {
			t.Errorf("%s is not passed, of %d points", must, len(points))
		}
	}
	swept(t, dir)

	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	kills, missed, seed := 0, map[string]bool{}, uint64(1)
	for range rounds {
		for _, point := range slices.Sorted(func(yield func(string) bool) {
			for p := range points {
				if !yield(p) {
					return
				}
			}
		}) {
			if testing.Short() && r.IntN(3) > 0 {
				continue
			}
			seed++
			n := 1 + r.IntN(max(1, min(points[point]*2/3, 200)))
			did := false
			if seed%2 == 0 { // alone in a directory that needs repair
				kill("stage.copying", 1+r.IntN(20), seed)
				did = kill(point, n, seed)
			} else { // while others go on
				did = killAmongOthers(t, dir, seed, func() bool { return kill(point, n, seed+100) })
			}
			if did {
				kills++
			} else {
				missed[point] = true
			}
			swept(t, dir)
			if t.Failed() {
				t.Fatalf("after a kill at pass %d of %s, seed %d", n, point, seed)
			}
		}
	}
	random := 50
	if testing.Short() {
		random = 6
	}
	for range random {
		seed++
		killAmongOthers(t, dir, seed, func() bool {
			c := proctest.New("crash", dir, strconv.FormatUint(seed+100, 10)).Start(t)
			time.Sleep(time.Duration(10+r.IntN(50)) * time.Millisecond)
			c.Kill()
			if killed, out, err := c.Wait(); !killed && err != nil {
				t.Errorf("%v\n%s", err, out)
			} else if killed {
				kills++
			}
			return true
		})
		if seed%4 == 0 {
			swept(t, dir)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	swept(t, dir)
	t.Logf("%d kills, at %d points; %d of them were not reached every time", kills, len(points), len(missed))
	if !testing.Short() && kills < 100 {
		t.Errorf("only %d kills", kills)
	}
}

// killAmongOthers has a pool of this process churn in the directory while a child is killed there,
// and a little longer.
func killAmongOthers(t testing.TB, dir string, seed uint64, kill func() bool) bool {
	t.Helper()
	p := ok(Open(context.Background(), dir, crashOptions(seed)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- churn(ctx, p, mixed("crash", int(seed%4), 3*mib/2), rand.New(rand.NewPCG(seed, 6)), crashNames, 0)
	}()
	did := kill()
	time.Sleep(5 * time.Millisecond)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("who went on: %v", err)
	}
	u := ok(p.Usage())(t)
	if u.Bytes > 3*mib {
		t.Errorf("%d bytes are counted, the limit is %d", u.Bytes, 3*mib)
	}
	must(t, p.Close())
	return did
}
