//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"leat/internal/proctest"
	"leat/ndarray"
)

func init() {
	children["busy"] = childBusy
	children["pair"] = childPair
}

// childBusy makes, attaches, seals and frees arrays of every place until it is killed, or some
// hundred times.
func childBusy([]string) error {
	for range 3 {
		for _, place := range []Place{Memfd, Named, Temp} {
			s, err := Open(&Options{Place: place})
			if err != nil {
				return err
			}
			other, err := Open(nil)
			if err != nil {
				return err
			}
			for i := range 4 {
				a, err := writable(s, numbers(arenaMax<<i, 1))
				if err != nil {
					return err
				}
				b, err := s.New(ndarray.Float32, 100_000)
				if err != nil {
					return err
				}
				if _, err = s.Put(numbers(500, 2)); err != nil {
					return err
				}
				h, err := a.Handle()
				if err != nil {
					return err
				}
				w, err := other.Attach(h, ReadWrite)
				if err != nil {
					return err
				}
				if err := errors.Join(w.Close(), a.Seal()); err != nil {
					return err
				}
				if _, err := other.Attach(h, ReadOnly); err != nil {
					return err
				}
				if i%2 == 0 {
					if err := errors.Join(a.Close(), b.Close()); err != nil {
						return err
					}
				}
			}
			if err := errors.Join(other.Close(), s.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftovers are the files in the directories of named arrays.
func leftovers(t testing.TB, run, temp string) []string {
	t.Helper()
	var list []string
	for _, dir := range []string{run, temp} {
		check(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err == nil && !info.IsDir() && info.Name() != ".leat" { // the marker of a directory of leat's
				list = append(list, path)
			}
			return err
		}))
	}
	return list
}

// memfds is the number of objects without a name that processes of this test have; other programs
// may share arrays at the same time.
func memfds(t testing.TB) int {
	t.Helper()
	self := must(os.Readlink("/proc/self/exe"))(t)
	n := 0
	for _, info := range must(List(nil))(t) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", info.Maker)); info.Maker != 0 && err == nil &&
			exe == self {
			n++
		}
	}
	return n
}

func TestKillAtEachPoint(t *testing.T) {
	run, temp := isolate(t)
	if _, output, err := proctest.New("busy").Start(t).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if left := leftovers(t, run, temp); len(left) > 0 {
		t.Fatalf("a good end leaves %v", left)
	}
	passes := []int{1, 2, 5}
	if !testing.Short() {
		passes = []int{1, 2, 3, 5, 8, 13, 21, 34}
	}
	points := []string{"shm.filling", "shm.opened", "shm.recycling", "shm.pwrite", "shm.populate", "shm.memfd",
		"tempfile.created", "tempfile.locked", "lockfile.filled", "tempfile.linked", "lockfile.opened", "lockfile.sweeping",
		"lockfile.swept"}
	swept := 0
	for _, point := range points {
		kills := 0
		for _, n := range passes {
			killed, output, err := proctest.New("busy").KillAt(point, n).Start(t).Wait()
			if err != nil && !killed {
				t.Fatalf("%s %d: %v\n%s", point, n, err, output)
			}
			if killed {
				kills++
			}
			swept += len(must(GC(nil, false))(t))
			if left := leftovers(t, run, temp); len(left) > 0 {
				t.Errorf("%s %d leaves %v", point, n, left)
			}
			if m := memfds(t); m != 0 {
				t.Errorf("%s %d leaves %d objects in memory", point, n, m)
			}
		}
		if kills == 0 && point != "lockfile.sweeping" && point != "lockfile.swept" {
			t.Errorf("nobody passed %s", point)
		}
	}
	if swept == 0 {
		t.Error("no kill left anything: the test tests nothing")
	}
}

// childPair is a parent with two workers of its own kind: it makes arrays for them and they make
// some for it.
func childPair(args []string) error {
	s, err := Open(nil)
	if err != nil {
		return err
	}
	named, err := Open(&Options{Place: Named})
	if err != nil {
		return err
	}
	if args[0] != "" {
		if _, err := s.Attach(Handle(args[0]), ReadOnly); err != nil {
			return err
		}
		if _, err := named.Attach(Handle(args[1]), ReadOnly); err != nil {
			return err
		}
	}
	a, err := s.Put(numbers(1<<20, 1))
	if err != nil {
		return err
	}
	b, err := named.Put(numbers(1<<20, 1))
	if err != nil {
		return err
	}
	ha, err := a.Handle()
	if err != nil {
		return err
	}
	hb, err := b.Handle()
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[2]+".tmp", []byte(string(ha)+"\n"+string(hb)), 0o600); err != nil {
		return err
	}
	if err := os.Rename(args[2]+".tmp", args[2]); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	return nil
}

// joblib leaves 100 MB and its directories for ever.
func TestKillsOfParentAndWorkers(t *testing.T) {
	run, temp := isolate(t)
	before := memfds(t)
	for subset := 1; subset < 8; subset++ {
		dir := t.TempDir()
		start := func(i int, ha, hb string) (*proctest.Command, []string) {
			name := filepath.Join(dir, fmt.Sprint(i))
			c := proctest.New("pair", ha, hb, name).Start(t)
			if !waitFor(name) {
				c.Kill()
				_, output, err := c.Wait()
				t.Fatalf("process %d: %v\n%s", i, err, output)
			}
			return c, strings.Split(string(must(os.ReadFile(name))(t)), "\n")
		}
		parent, h := start(0, "", "")
		one, _ := start(1, h[0], h[1])
		two, _ := start(2, h[0], h[1])
		all := []*proctest.Command{parent, one, two}
		for _, i := range rand.Perm(3) {
			if subset&(1<<i) != 0 {
				all[i].Kill()
				all[i].Wait()
			}
		}
		would := must(GC(nil, true))(t)
		if removed := must(GC(nil, false))(t); !slices.Equal(removed, would) {
			t.Errorf("removed %q, not %q", removed, would)
		}
		// What the living have stays: 3 named arrays of their own, and the parent's while a worker
		// has it.
		left := leftovers(t, run, temp)
		living := 0
		for i := range all {
			if subset&(1<<i) == 0 {
				living++
			}
		}
		want := living
		if subset&1 != 0 && living > 0 {
			want++
		}
		if len(left) != want {
			t.Errorf("subset %b: %d files for %d living processes: %v", subset, len(left), living, left)
		}
		for i, c := range all {
			if subset&(1<<i) == 0 {
				c.Kill()
				c.Wait()
			}
		}
		must(GC(nil, false))(t)
		if left := leftovers(t, run, temp); len(left) != 0 {
			t.Errorf("subset %b leaves %v", subset, left)
		}
		if n := memfds(t) - before; n != 0 {
			t.Errorf("subset %b leaves %d objects in memory", subset, n)
		}
	}
}

func TestNamedArraysSweepLeftovers(t *testing.T) {
	run, temp := isolate(t)
	for range 3 {
		if killed, output, _ := proctest.New("busy").KillAt("tempfile.linked", 2).Start(t).Wait(); !killed {
			t.Fatal(output)
		}
	}
	if len(leftovers(t, run, temp)) == 0 {
		t.Fatal("nothing was left")
	}
	s := newSharer(t, &Options{Place: Named})
	for range 10 {
		check(t, must(s.Put([]byte{1}))(t).Close())
	}
	if left := leftovers(t, run, temp); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

func TestList(t *testing.T) {
	isolate(t)
	find := func(name string) (found []Info) {
		for _, info := range must(List(nil))(t) {
			if info.Name == name {
				found = append(found, info)
			}
		}
		return found
	}
	for _, place := range []Place{Memfd, Named, Temp} {
		s := newSharer(t, &Options{Place: place})
		a := must(s.Put(numbers(1<<20, 1)))(t)
		path, _, err := a.File()
		check(t, err)
		p := hold(t, must(a.Handle())(t), ReadOnly)
		got := find(path)
		if len(got) != 1 || !got[0].Held || got[0].Kind != "whole" || got[0].Size < 1<<20 || got[0].Bytes < 1<<20 ||
			len(got[0].PIDs) != 2 {
			t.Errorf("%v: %+v", place, got)
		}
		p.leave(t)
		if got := find(path); len(got) != 1 || len(got[0].PIDs) != 1 {
			t.Errorf("%v: %+v", place, got)
		}
		if removed := must(GC(nil, false))(t); len(removed) != 0 {
			t.Errorf("GC removed %v", removed)
		}
		check(t, s.Close())
		if got := find(path); len(got) != 0 {
			t.Errorf("%v: %+v", place, got)
		}
	}
}
