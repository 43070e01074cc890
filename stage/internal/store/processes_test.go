//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"leat/internal/proctest"
)

var children = map[string]proctest.Func{"churn": churnChild, "crash": crash, "file limit": underLimit}

// numbersFrom are numbers of one process's own.
func numbersFrom(base uint64) func() (uint64, error) {
	n := base << 32
	return func() (uint64, error) { n++; return n, nil }
}

func churnChild(args []string) (err error) {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	setWay(args[2], func(string) error { return nil })
	s, err := openAt(args[0], numbersFrom(seed))
	if err != nil {
		return err
	}
	if err := churn(s, seed, 200); err != nil {
		return err
	}
	return s.Close()
}

func TestProcessesShareDirectory(t *testing.T) {
	for _, way := range ways[:2] {
		t.Run("a file system with "+way, func(t *testing.T) {
			inWay(t, way)
			dir := inMemory(t)
			s := open(t, dir)
			mine := kept(t, s, object(1, 1000), "")
			var all []*proctest.Command
			for i := range 3 {
				all = append(all, proctest.New("churn", filepath.Join(dir, "stage"), fmt.Sprint(i+1), way).Start(t))
			}
			done := make(chan error)
			go func() { done <- churn(s, 99, 200) }()
			for running := true; running; {
				select {
				case err := <-done:
					must(t, err)
					running = false
				default: // what is held or known stays, whoever sweeps
					_, err := s.Sweep(func(uint64) bool { return true })
					must(t, err)
				}
			}
			for _, c := range all {
				awaitEnd(t, c)
			}
			must(t, check(s, mine, object(1, 1000)))
			must(t, s.Free(mine, 1000))
			if left := files(t, s); len(left) > 1 || space(t, s) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// crash stores an object for good, stores another, and frees both, to be killed on the way. It
// prints after each step what the index would contain, and in the end how often it passed each
// point.
func crash(args []string) error {
	dir, way := args[0], args[1]
	size, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	passes := map[string]int{}
	setWay(way, func(point string) error { passes[point]++; proctest.Point(point); return nil })
	s, err := openAt(filepath.Join(dir, "stage"), numbersFrom(1<<20))
	if err != nil {
		return err
	}
	known := map[string]Place{}
	var first Place
	for i := range 2 {
		d, err := store(s, object(uint64(i), size), ".bin")
		if err != nil {
			return err
		}
		known[fmt.Sprint(i)] = d.Place()
		if err := tell(dir, known); err != nil {
			return err
		}
		if err := d.Close(); err != nil {
			return err
		}
		if i == 0 {
			first = d.Place()
		}
		if first.Packed() {
			s.active[0].taken = s.active[0].size // so that a segment is retired, and another one begun
		}
	}
	given := ok2(store(s, object(2, size), ""))
	if err := given.Close(); err != nil {
		return err
	}
	for i := range 2 {
		p := known[fmt.Sprint(i)]
		delete(known, fmt.Sprint(i))
		if err := tell(dir, known); err != nil {
			return err
		}
		if err := s.Free(p, size); err != nil {
			return err
		}
	}
	if err := s.Free(given.Place(), size); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(passes)
}

func ok2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// tell writes what is known, whole or not at all.
func tell(dir string, known map[string]Place) error {
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), b, 0o600); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "known"))
}

func committed(t testing.TB, dir string) (known map[string]Place) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "known"))
	if !errors.Is(err, os.ErrNotExist) {
		must(t, err)
		must(t, json.Unmarshal(b, &known))
	}
	return known
}

func TestKillAtEachPoint(t *testing.T) {
	for _, way := range ways[:2] {
		for _, size := range []int64{50_000, 2 << 20} {
			var passes map[string]int
			must(t, json.Unmarshal([]byte(awaitEnd(t,
				proctest.New("crash", inMemory(t), way, fmt.Sprint(size)).Start(t))), &passes))
			for _, point := range []string{"tempfile.created", "stage.allocated", "stage.written", "stage.unlinking",
				"stage.unlinked"} {
				if passes[point] == 0 {
					t.Errorf("no pass of %s with %d bytes, %s", point, size, way)
				}
			}
			for point, n := range passes {
				if testing.Short() {
					n = min(n, 1)
				}
				for pass := 1; pass <= n; pass++ {
					dir := inMemory(t)
					if killed, out, err := proctest.New("crash", dir, way, fmt.Sprint(size)).KillAt(point,
						pass).Start(t).Wait(); !killed {
						t.Fatalf("%s at %d: not killed: %v\n%s", point, pass, err, out)
					}
					t.Run(fmt.Sprintf("%s at %d with %d bytes, %s", point, pass, size, way), func(t *testing.T) {
						inWay(t, way)
						known := committed(t, dir)
						for _, how := range []string{"sweep", "tidy"} {
							s := open(t, dir)
							if how == "sweep" {
								ids := map[uint64]bool{}
								for _, p := range known {
									ids[p.ID] = true
								}
								_, err := s.Sweep(func(id uint64) bool { return ids[id] })
								must(t, err)
							} else {
								_, err := s.Tidy(func(yield func(Place, int64) bool) {
									for _, p := range known {
										if !yield(p, size) {
											return
										}
									}
								})
								must(t, err)
								if taken := space(t, s); taken != int64(len(known))*Charge(size) {
									t.Errorf("%d bytes are taken by %d objects", taken, len(known))
								}
							}
							if left := files(t, s); len(left) != len(known) {
								t.Errorf("%d files are known after a %s, left: %v", len(known), how, left)
							}
						}
						s := open(t, dir)
						for i, p := range known {
							must(t, check(s, p, object(uint64(i[0]-'0'), size)))
							must(t, s.Free(p, size))
						}
						wantNothing(t, s)
					})
				}
			}
		}
	}
}

func TestTidy(t *testing.T) {
	dir := t.TempDir()
	s := ok(openAt(filepath.Join(dir, "stage"), numbersFrom(7)))(t)
	known := map[Place]int64{}
	seeds := map[Place]uint64{}
	for i := range 40 {
		size := int64(1000 * (i + 1))
		p := kept(t, s, object(uint64(i), size), "")
		if i%3 == 1 {
			known[p], seeds[p] = size, uint64(i)
		}
	}
	if n, err := s.Tidy(maps.All(map[Place]int64{})); n != 0 || err != nil { // it is held, for more is appended
		t.Errorf("%d files removed, %v", n, err)
	}
	must(t, s.Close())
	s = open(t, dir)
	n := ok(s.Tidy(maps.All(known)))(t)
	want := int64(0)
	for p, size := range known {
		must(t, check(s, p, object(seeds[p], size)))
		want += Charge(size)
	}
	if taken := space(t, s); taken != want || n != 0 {
		t.Errorf("%d bytes are taken, not %d; %d files removed", taken, want, n)
	}
	if n := ok(s.Tidy(maps.All(map[Place]int64{})))(t); n != 1 {
		t.Errorf("%d files removed", n)
	}
	wantNothing(t, s)
}

func TestSweepKeepsLockedAndForeign(t *testing.T) {
	inAllWays(t, func(t *testing.T, way string) {
		dir := t.TempDir()
		s := open(t, dir)
		none := func(uint64) bool { return false }
		small, large := ok(store(s, object(1, 1000), ""))(t), ok(store(s, object(2, 2<<20), ".x"))(t)
		writing := ok(s.Create(-1, ""))(t)
		_, err := writing.WriteAt(object(3, 2<<20), 0)
		must(t, err)
		for _, name := range []string{"segments/other", "segments/0000000000000000", "objects/00", "objects/other"} {
			path := filepath.Join(dir, "stage", name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			if name == "objects/00" {
				must(t, os.MkdirAll(path, 0o700))
				path += "/other"
			}
			must(t, os.WriteFile(path, nil, 0o600))
		}
		other := ok(openAt(filepath.Join(dir, "stage"), numbersFrom(8)))(t)
		if n, err := other.Sweep(none); n != 0 || err != nil {
			t.Errorf("%d removed, %v", n, err)
		}
		must(t, check(other, small.Place(), object(1, 1000)))
		must(t, check(other, large.Place(), object(2, 2<<20)))
		must(t, writing.Commit(2<<20))
		must(t, check(other, writing.Place(), object(3, 2<<20)))
		for _, d := range []*Writer{small, large, writing} {
			must(t, d.Close())
		}
		used := 0
		if n, err := other.Sweep(func(id uint64) bool {
			used++
			return id == large.Place().ID &&
				used > 0
		}); err != nil || n == 0 {
			t.Errorf("%d removed, %v", n, err)
		}
		must(t, check(other, large.Place(), object(2, 2<<20)))
		_, err = other.OpenFile(writing.Place())
		wantErr(t, err, os.ErrNotExist)
		must(t, other.Close())
		n := 0
		for name := range files(t, s) {
			if strings.HasSuffix(name, "other") || strings.HasSuffix(name, "0000000000000000") {
				n++
			}
		}
		if n != 4 {
			t.Errorf("others' files went: %v", files(t, s))
		}
	})
}

func awaitEnd(t testing.TB, c *proctest.Command) string {
	t.Helper()
	_, out, err := c.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
