//go:build linux

package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/proctest"
	"leat/ndarray"
)

// smallTmpfs mounts a tmpfs of 8 MiB, or skips the test.
func smallTmpfs(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a tmpfs takes root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=0700"); err != nil {
		t.Skipf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return dir
}

// joblib dies there by SIGBUS, or by an error that leaves the memory full.
func TestFullSharedMemoryIsAnError(t *testing.T) {
	dir := smallTmpfs(t)
	isolate(t)
	setenv(t, "LEAT_RUNTIME_DIR", filepath.Join(dir, "run"))
	s := newSharer(t, &Options{Place: Named})
	free := func() int64 {
		f := must(os.Open(dir))(t)
		defer f.Close()
		return must(fdio.FreeSpace(int(f.Fd())))(t)
	}
	check(t, must(s.Put([]byte{1}))(t).Close()) // makes the directories
	empty := free()
	for _, what := range []string{"put", "new"} {
		for _, step := range []int{2 << 20, 256 << 10, 4096, 1} {
			var list []*Array
			for {
				var a *Array
				var err error
				if what == "put" {
					a, err = s.Put(numbers(step, 1))
				} else {
					a, err = s.New(ndarray.Uint8, step)
				}
				if err != nil {
					if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), dir) {
						t.Fatalf("%v", err)
					}
					break
				}
				list = append(list, a)
				if len(list) > 10_000 {
					t.Fatal("it is never full")
				}
			}
			// Every byte of what there is can be written and read.
			for _, a := range list {
				b := must(Slice[byte](a))(t)
				for i := range b {
					b[i]++
				}
				a.obj.state.Load()
			}
			for _, a := range list {
				check(t, a.Close())
			}
			if free() != empty {
				t.Fatalf("%s of %d bytes left %d bytes behind", what, step, empty-free())
			}
		}
	}
	// The writes fail one after the other, as if space was gone since the check.
	for n := 1; n < 6; n++ {
		count := 0
		fault.Set(func(point string) error {
			if point == "shm.pwrite" {
				if count++; count == n {
					return unix.ENOSPC
				}
			}
			return nil
		})
		a, err := s.Put(numbers(3<<20, 1))
		fault.Set(nil)
		if err == nil {
			check(t, a.Close())
			if n < 4 {
				t.Errorf("write %d did not fail", n)
			}
			continue
		}
		if !errors.Is(err, ErrNoSpace) {
			t.Error(err)
		}
		if free() != empty {
			t.Fatalf("the failed write %d left %d bytes behind", n, empty-free())
		}
	}
}

func TestDiskIsUsedWithoutMemory(t *testing.T) {
	_, temp := isolate(t)
	noMemory(t)
	// The named place would be next, but is in memory too.
	shm, err := os.MkdirTemp("/dev/shm", "leat-test-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(shm) })
	setenv(t, "LEAT_RUNTIME_DIR", filepath.Join(shm, "run"))
	s := newSharer(t, nil)
	a := must(s.Put(numbers(1<<20, 1)))(t)
	path, _, err := a.File()
	check(t, err)
	if !strings.HasPrefix(path, temp) {
		t.Errorf("it lies in %s", path)
	}
	if got := elsewhere(t, ReadOnly, must(a.Handle())(t)); got[0] != fmt.Sprintf("%x", a.digest()) {
		t.Error(got)
	}
	for _, place := range []Place{Memfd, Named} {
		forced := newSharer(t, &Options{Place: place})
		for _, n := range []int{1, 1 << 20} {
			if _, err := forced.Put(numbers(n, 1)); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(),
				"need ") {
				t.Errorf("%v: %v", place, err)
			}
		}
	}
	// No disk either.
	setenv(t, "TMPDIR", shm)
	if _, err := newSharer(t, nil).Put(numbers(1<<20, 1)); !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(),
		"is in memory too") {
		t.Error(err)
	}
}

func TestSmallArraysOnDisk(t *testing.T) {
	_, temp := isolate(t)
	shm, err := os.MkdirTemp("/dev/shm", "leat-test-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(shm) })
	setenv(t, "LEAT_RUNTIME_DIR", filepath.Join(shm, "run"))
	noMemory(t)
	for _, n := range []int{0, 10, arenaMax} {
		a := must(newSharer(t, nil).Put(numbers(n, 1)))(t)
		if path, _, err := a.File(); err != nil || !strings.HasPrefix(path, temp) {
			t.Errorf("%d bytes lie in %s, %v", n, path, err)
		}
		if got := elsewhere(t, ReadOnly, must(a.Handle())(t)); got[0] != fmt.Sprintf("%x", a.digest()) {
			t.Error(got)
		}
	}
}

// noMemory simulates a system without free memory.
func noMemory(t *testing.T) {
	fault.Set(func(point string) error {
		if point == "shm.memory" {
			return errors.New("a test")
		}
		return nil
	})
	t.Cleanup(func() { fault.Set(nil) })
}

func TestSmallArrayReservesItsPages(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	const free = 1 << 20 // less than an arena
	s.memory = freeMemory{known: true, at: time.Now().Add(time.Hour), bytes: free}
	must(s.Put(numbers(10, 1)))(t)
	if took := free - s.memory.bytes; took != 2*pageSize { // the arena's tag, and the entry
		t.Errorf("the first took %d bytes", took)
	}
	must(s.Put(numbers(10, 2)))(t)
	if took := free - s.memory.bytes; took != 2*pageSize {
		t.Errorf("the second, in the same page, took some: %d bytes in all", took)
	}
	must(s.Put(numbers(pageSize, 3)))(t)
	if took := free - s.memory.bytes; took != 3*pageSize {
		t.Errorf("one of another page: %d bytes in all", took)
	}
}

func TestArenaInRecycledMemory(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd, RecycleBytes: 64 << 20})
	const kept = 10 << 10 // of an arena
	whole := must(s.Put(numbers(arenaSize-pageSize, 1)))(t)
	check(t, whole.Close())
	if len(s.recycled.free) != 1 {
		t.Fatal("nothing was kept")
	}
	noMemory(t)
	a, err := s.Put(numbers(arenaMax, 2)) // all of it is there
	check(t, err)
	if s.arena != whole.obj.seg || a.obj.seg != s.arena {
		t.Error("it lies elsewhere")
	}
	// The same of memory of which a part is filled.
	s.arena.filled = s.arenaAt + kept
	must(s.Put(numbers(kept/2, 3)))(t)
	if _, err := s.Put(numbers(arenaMax, 4)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("an entry beyond it: %v", err)
	}
}

func TestMemoryUsedUpMeanwhile(t *testing.T) {
	isolate(t)
	s := newSharer(t, &Options{Place: Memfd})
	before := descriptors(t)
	for _, open := range []bool{false, true} {
		asked := 0
		fault.Set(func(point string) error {
			if point == "shm.memory" {
				if asked++; asked > 2 {
					return errors.New("a test")
				}
			}
			return nil
		})
		src := make([]byte, 3*checkEvery)
		var err error
		if open {
			_, err = s.New(ndarray.Uint8, len(src))
		} else {
			_, err = s.Put(src)
		}
		fault.Set(nil)
		if !errors.Is(err, ErrNoSpace) {
			t.Errorf("%v after %d checks", err, asked)
		}
		if n := descriptors(t) - before; n != 0 {
			t.Errorf("%d descriptors are left", n)
		}
	}
}

func TestRecycledMemoryIsFreedFirst(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	check(t, must(s.Put(numbers(1<<20, 1)))(t).Close())
	if len(s.recycled.free) != 1 {
		t.Fatal("nothing was kept")
	}
	if _, err := s.Put(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.reserveMemory(1 << 50); !errors.Is(err, ErrNoSpace) {
		t.Error(err)
	}
	if len(s.recycled.free) != 0 {
		t.Error("it is still kept")
	}
}

func init() { children["fewDescriptors"] = childFewDescriptors }

// childFewDescriptors makes more arrays than it may have descriptors.
func childFewDescriptors([]string) error {
	lim := unix.Rlimit{Cur: 64, Max: 64}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	s, err := Open(nil)
	if err != nil {
		return err
	}
	kinds := map[string]int{}
	for i := range 200 {
		src := numbers(arenaMax+1+i, uint64(i))
		a, err := s.Put(src)
		if err != nil {
			return fmt.Errorf("array %d: %w", i, err)
		}
		kinds[a.obj.addr.kind]++
		h, err := a.Handle()
		if err != nil {
			return err
		}
		other, err := Open(nil)
		if err != nil {
			return err
		}
		b, err := other.Attach(h, ReadOnly)
		if err != nil {
			return fmt.Errorf("array %d: %w", i, err)
		}
		if b.digest() != a.digest() {
			return errors.New("it arrived wrong")
		}
		if err := other.Close(); err != nil {
			return err
		}
	}
	if kinds[kindMemfd] < 10 || kinds[kindFile] < 150 {
		return fmt.Errorf("%v", kinds)
	}
	return s.Close()
}

func TestManyDescriptorsMakeArraysNamed(t *testing.T) {
	run, _ := isolate(t)
	if _, output, err := proctest.New("fewDescriptors").Start(t).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if left := must(os.ReadDir(filepath.Join(run, arraysDir)))(t); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

func TestWrongOptionsAreAllNamed(t *testing.T) {
	_, err := Open(&Options{Place: 9, ReserveBytes: -1, TempDir: "x", Roots: []string{"/a", "b"}})
	for _, name := range []string{"Place", "ReserveBytes", "TempDir", "Roots"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRelativeTempVariable(t *testing.T) {
	isolate(t)
	s := newSharer(t, &Options{Place: Temp})
	setenv(t, "LEAT_TEMP_FOLDER", "here")
	named := func(what string, err error, variable string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), variable) || !strings.Contains(err.Error(), "absolute") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := Open(nil)
	named("Open", err, "LEAT_TEMP_FOLDER")
	_, err = List(nil)
	named("List", err, "LEAT_TEMP_FOLDER")
	_, err = s.Put([]byte{1}) // it was another when s was opened
	named("Put", err, "LEAT_TEMP_FOLDER")
	check(t, must(Open(&Options{TempDir: t.TempDir()}))(t).Close())
	setenv(t, "LEAT_TEMP_FOLDER", t.TempDir())
	setenv(t, "LEAT_RUNTIME_DIR", "here")
	_, err = List(nil)
	named("List", err, "LEAT_RUNTIME_DIR")
	_, err = GC(nil, false)
	named("GC", err, "LEAT_RUNTIME_DIR")
	if _, err := os.Lstat("here"); err == nil {
		t.Error("a directory was made")
	}
}

// joblib keeps arrays in its temp_folder if one is given.
func TestTempDirIsUsedWhileMemoryHasSpace(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	byOption := newSharer(t, &Options{TempDir: dir})
	setenv(t, "LEAT_TEMP_FOLDER", dir)
	byVariable, memory := newSharer(t, nil), newSharer(t, &Options{Place: Memfd})
	for _, n := range []int{10, 1 << 20} {
		for s, want := range map[*Pool]string{byOption: dir, byVariable: dir, memory: "/proc/"} {
			a := must(s.Put(numbers(n, 1)))(t)
			if path, _, err := a.File(); err != nil || !strings.HasPrefix(path, want) {
				t.Errorf("%d bytes lie in %s, not in %s, %v", n, path, want, err)
			}
			if got := elsewhere(t, ReadOnly, must(a.Handle())(t)); got[0] != fmt.Sprintf("%x", a.digest()) {
				t.Error(got)
			}
		}
	}
	missing := filepath.Join(dir, "no", "such")
	if _, err := newSharer(t, &Options{TempDir: missing}).Put(numbers(10, 1)); err == nil ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("a missing directory: %v", err)
	}
}
