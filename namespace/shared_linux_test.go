package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// joined starts n processes that are the ranks of a job.
func joined(t testing.TB, n int) []*agent {
	t.Helper()
	list := newAgents(t, n)
	for i, a := range list {
		a.join(orderSpec{Key: "job", Ranks: rank(i, n)})
	}
	return list
}

func alone(t testing.TB) *Namespace {
	t.Helper()
	n, err := Join(t.Context(), Spec{Key: "job"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestSharedRegion(t *testing.T) {
	ownRoot(t)
	job := joined(t, 3)
	const size = 1<<20 + 17
	for i, a := range job {
		if got := a.must(order{Op: "region", Name: "r", N: size, Value: int64(i + 1)}); got.Value != int64(i) {
			t.Errorf("rank %d finds %d", i, got.Value)
		}
	}
	for _, n := range []int{size - 1, size + 1, 8} {
		got := job[0].try(order{Op: "region", Name: "r", N: n})
		if !strings.Contains(got.Err, fmt.Sprint(size)) || !strings.Contains(got.Err, fmt.Sprint(n)) {
			t.Errorf("%d bytes in the same process: %q", n, got.Err)
		}
	}
	late := newAgent(t, nil)
	late.join(orderSpec{Key: "job", Ranks: rank(2, 3)})
	if got := late.try(order{Op: "region", Name: "r", N: size + 1}); !strings.Contains(got.Err, ", expected ") {
		t.Errorf("another size in another process: %+v", got)
	}
	if got := late.must(order{Op: "region", Name: "other", N: size}); got.Value != 0 {
		t.Errorf("another region begins with %d", got.Value)
	}
	// Its memory is there at once, and goes with the last member.
	jobs, _ := List()
	if len(jobs) != 1 || len(jobs[0].Shared) != 2 || jobs[0].Shared[0].Bytes != size {
		t.Errorf("%+v", jobs)
	}
}

func TestInvalidSizes(t *testing.T) {
	ownRoot(t)
	n := alone(t)
	for _, size := range []int{0, -1, -1 << 63} {
		if _, err := n.Region("r", size); err == nil {
			t.Errorf("%d bytes are possible", size)
		}
	}
	for _, parties := range []int{0, -1, 1 << 31, 1 << 40} {
		if _, err := n.Barrier("b", parties); err == nil {
			t.Errorf("a barrier for %d is possible", parties)
		}
	}
	if _, err := n.Barrier("b", 2); err != nil {
		t.Error(err)
	}
	if _, err := n.Barrier("b", 3); err == nil || !strings.Contains(err.Error(), "for 3 parties, expected 2") {
		t.Error(err)
	}
}

func TestInvalidNames(t *testing.T) {
	ownRoot(t)
	n := alone(t)
	for name, ok := range map[string]bool{
		"a": true, "A1._-": true, strings.Repeat("x", 23): true,
		"": false, strings.Repeat("x", 24): false, ".": false, "..": false, ".a": false, "-a": false, "_a": false,
		"a/b": false, "/a": false, "a b": false, "ä": false,
		"a\x00b": false, "a\nb": false,
	} {
		_, e1 := n.Region(name, 8)
		_, e2 := n.Counter(name)
		_, e3 := n.Barrier(name, 2)
		_, e4 := n.Mutex(name)
		_, e5 := n.Dir(name)
		full, e6 := n.Name(name)
		for i, err := range []error{e1, e2, e3, e4, e5, e6} {
			if (err == nil) != ok {
				t.Errorf("%q, thing %d: %v", name, i, err)
			}
		}
		if ok && full != fmt.Sprintf("500000_%d_%s", os.Geteuid(), name) {
			t.Error(full)
		}
	}
	for name, ok := range map[string]bool{"train": true, strings.Repeat("x", 256): true,
		strings.Repeat("x", 257): false, "a/b": false, "..": false, "a b": false} {
		m, err := Join(t.Context(), Spec{Key: "job", Name: name})
		if (err == nil) != ok {
			t.Errorf("a namespace named %q: %v", name, err)
		}
		if err == nil {
			m.Close()
		}
	}
}

func TestFullRuntimeDirectory(t *testing.T) {
	dir := t.TempDir()
	root := mkdirs(t, dir, "root")
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	if err := unix.Mount("leat-test", root, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("mounting is not possible here: %v", err)
	}
	defer unix.Unmount(root, unix.MNT_DETACH)
	t.Setenv("LEAT_RUNTIME_DIR", root)
	n, err := Join(t.Context(), Spec{Key: "job"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Region("big", 2<<20); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(),
		root+" has no space for 2097152 bytes") {
		t.Errorf("%v", err)
	}
	small, err := n.Region("small", 500<<10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Region("second", 600<<10); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	// What failed has left nothing: there is space for what fits, and all of the memory that was
	// granted can be written.
	third, err := n.Region("third", 300<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{small, third} {
		for i := range b {
			b[i] = 1
		}
	}
	// Full to the last page, a registration fails cleanly too, and leaving works.
	if err := fill(filepath.Join(root, "filler")); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(t.Context(), Spec{Key: "other", Wait: time.Second}); !errors.Is(err,
		unix.ENOSPC) || !strings.Contains(err.Error(), root) {
		t.Errorf("%v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(root, "filler")); err != nil {
		t.Error(err)
	}
	m, err := Join(t.Context(), Spec{Key: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	mustBeEmptyAfterGC(t, root)
}

// fill writes until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestSharedCounter(t *testing.T) {
	ownRoot(t)
	job := joined(t, 8)
	all(job, func(int) order { return order{Op: "add", Name: "c", N: 10000} })
	for i, a := range job {
		if v := a.must(order{Op: "load", Name: "c"}).Value; v != 80000 {
			t.Errorf("rank %d: %d", i, v)
		}
	}
	n, err := Join(t.Context(), Spec{Key: "job", Ranks: rank(1, 8)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c, err := n.Counter("c")
	if err != nil {
		t.Fatal(err)
	}
	if c.CompareAndSwap(1, 2) || !c.CompareAndSwap(80000, 7) || c.Add(-8) != -1 {
		t.Errorf("%d", c.Load())
	}
	c.Store(1 << 62)
	if v := job[3].must(order{Op: "load", Name: "c"}).Value; v != 1<<62 {
		t.Errorf("%d", v)
	}
}

func TestBarrierRounds(t *testing.T) {
	ownRoot(t)
	rounds := int64(1000)
	if testing.Short() {
		rounds = 100
	}
	job := joined(t, 8)
	begin := time.Now()
	for i, got := range all(job, func(int) order {
		return order{Op: "check rounds", Name: "b", N: 8, Value: rounds, Timeout: 4 * time.Minute}
	}) {
		if got.Err != "" {
			t.Errorf("rank %d: %s", i, got.Err)
		}
	}
	t.Logf("%d rounds of 8 processes, %v each", rounds, time.Since(begin)/time.Duration(rounds))
}

func TestBarrierForOne(t *testing.T) {
	ownRoot(t)
	b, err := alone(t).Barrier("b", 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBrokenBarrier(t *testing.T) {
	ownRoot(t)
	job := joined(t, 4)
	wait := order{Op: "wait", Name: "b", N: 4, Timeout: time.Minute}
	job[0].send(wait)
	job[1].send(wait)
	short := wait
	short.Timeout = 200 * time.Millisecond
	if got := job[2].try(short); !got.is("deadline") {
		t.Errorf("the one who gave up: %+v", got)
	}
	for i := range 2 {
		if got := job[i].receive(); !got.is("broken") {
			t.Errorf("rank %d: %+v", i, got)
		}
	}
	if got := job[3].try(wait); !got.is("broken") {
		t.Errorf("the one who comes later: %+v", got)
	}
}

func TestBarrierReportsDeadMember(t *testing.T) {
	ownRoot(t)
	for _, arrived := range []bool{false, true} {
		t.Run(fmt.Sprintf("it has arrived: %v", arrived), func(t *testing.T) {
			job := joined(t, 4)
			wait := order{Op: "wait", Name: "b", N: 4, Timeout: time.Minute}
			for _, i := range []int{0, 1} {
				job[i].send(wait)
			}
			if arrived {
				job[2].send(wait)
			}
			time.Sleep(50 * time.Millisecond)
			job[2].kill()
			reported := 0
			for _, i := range []int{0, 1} {
				got := job[i].receive()
				switch { // the first to notice breaks the barrier
				case got.Died != nil:
					reported++
					if got.Died.Member.PID != job[2].pid || got.Died.Member.Rank != 2 || got.Died.Member.Leader ||
						!strings.Contains(got.Err, fmt.Sprintf("process %d, rank 2", job[2].pid)) {
						t.Errorf("rank %d: %+v", i, got)
					}
				case !got.is("broken"):
					t.Errorf("rank %d: %+v", i, got)
				}
			}
			if reported == 0 {
				t.Error("nobody reports who died")
			}
			for _, a := range job {
				_ = unix.Kill(a.pid, unix.SIGKILL)
				a.cmd.Wait()
			}
		})
	}
}

func TestMutexExcludes(t *testing.T) {
	ownRoot(t)
	times := 2000
	if testing.Short() {
		times = 200
	}
	const processes, goroutines = 4, 3
	job := joined(t, processes)
	begin := time.Now()
	for i, got := range all(job, func(int) order {
		return order{Op: "count under lock", Name: "m", N: times, Value: goroutines, Timeout: 4 * time.Minute}
	}) {
		if got.Err != "" {
			t.Fatalf("process %d: %s", i, got.Err)
		}
	}
	locks := processes * goroutines * times
	t.Logf("%d locks, %v each", locks, time.Since(begin)/time.Duration(locks))
	n, err := Join(t.Context(), Spec{Key: "job", Ranks: rank(1, processes)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	r, err := n.Region("m", 8)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for i, b := range r {
		got |= int(b) << (8 * i)
	}
	if got != locks {
		t.Errorf("%d counted, %d locked", got, locks)
	}
}

func TestMutexOfDeadHolder(t *testing.T) {
	ownRoot(t)
	job := joined(t, 3)
	job[0].must(order{Op: "lock", Name: "m"})
	if got := job[1].must(order{Op: "try lock", Name: "m"}); got.Value != 0 {
		t.Fatal("two have it")
	}
	if got := job[1].must(order{Op: "try lock", Name: "other"}); got.Value != 1 {
		t.Fatal("another mutex is taken too")
	}
	if got := job[1].try(order{Op: "lock", Name: "m", Timeout: 100 * time.Millisecond}); !got.is("deadline") ||
		got.Took > 20*time.Second {
		t.Errorf("%+v", got)
	}
	job[1].send(order{Op: "lock", Name: "m", Timeout: time.Minute})
	time.Sleep(20 * time.Millisecond)
	job[0].kill()
	if got := job[1].receive(); got.Err != "" {
		t.Errorf("%+v", got)
	}
	if got := job[2].must(order{Op: "try lock", Name: "m"}); got.Value != 0 {
		t.Error("two have it")
	}
	job[1].must(order{Op: "unlock", Name: "m"})
	if got := job[2].must(order{Op: "try lock", Name: "m"}); got.Value != 1 {
		t.Error("nobody has it, and it is not to be had")
	}
}

func TestMutexWaitCanceled(t *testing.T) {
	ownRoot(t)
	m, err := alone(t).Mutex("m")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("because")
	cancel(because)
	if _, err := m.Lock(ctx); !errors.Is(err, because) {
		t.Error(err)
	}
	if second, err := m.TryLock(); second != nil || err != nil {
		t.Error("it was locked twice", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = m.TryLock()
	if unlock == nil || err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestSharedDirectoryRemoved(t *testing.T) {
	root := ownRoot(t)
	job := joined(t, 2)
	dir := job[0].must(order{Op: "dir", Name: "d"}).Text
	if again := job[1].must(order{Op: "dir", Name: "d"}).Text; again != dir {
		t.Errorf("%s and %s", dir, again)
	}
	if err := os.MkdirAll(filepath.Join(dir, "deep", "deeper"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "deep", "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 || !strings.HasPrefix(dir, root+"/500000/") {
		t.Error(dir, st, err)
	}
	job[0].must(order{Op: "close"})
	if _, err := os.Stat(filepath.Join(dir, "deep", "file")); err != nil {
		t.Errorf("it is gone with the first: %v", err)
	}
	job[1].must(order{Op: "close"})
	if _, err := os.Stat(dir); err == nil {
		t.Error("it outlives the last")
	}
	mustBeEmptyAfterGC(t, root)
}

// Something that can't be removed in the directory of a killed job is not the next jobs' trouble.
func TestSweepError(t *testing.T) {
	root := ownRoot(t)
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	a := newAgent(t, nil)
	a.join(orderSpec{Key: "job"})
	dir := a.must(order{Op: "dir", Name: "d"}).Text
	at := mkdirs(t, dir, "mnt")
	mount(t, "leat-test", at, "tmpfs", 0) // the kernel refuses to remove a mount point
	a.killWait()
	for i := range 3 {
		n, err := Join(t.Context(), Spec{Key: fmt.Sprint("next", i)})
		if err != nil {
			t.Fatal(err)
		}
		if n.Number() == firstNumber {
			t.Error("the first number still has something of another job")
		}
		defer n.Close()
	}
	if _, err := GC(false); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("GC does not tell: %v", err)
	}
}

func TestUseAfterClose(t *testing.T) {
	ownRoot(t)
	n, err := Join(t.Context(), Spec{Key: "job", Dirs: write(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.Barrier("b", 2)
	if err != nil {
		t.Fatal(err)
	}
	m, err := n.Mutex("m")
	if err != nil {
		t.Fatal(err)
	}
	free, err := n.Mutex("free")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Those that wait at that moment get the error too.
	waiting := make(chan error, 3)
	go func() {
		_, err := m.Lock(context.Background()) // that another goroutine holds
		waiting <- err
	}()
	go func() { waiting <- b.Wait(context.Background()) }()
	other, err := Join(t.Context(), Spec{Key: "job", Dirs: n.spec.Dirs})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	theirs, err := other.Mutex("free")
	if err != nil {
		t.Fatal(err)
	}
	theirUnlock, err := theirs.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := free.Lock(context.Background())
		waiting <- err
	}()
	time.Sleep(10 * time.Millisecond)
	for range 3 {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting: %v", err)
		}
	}
	if err := theirUnlock(); err != nil {
		t.Error(err)
	}
	_, e1 := n.Region("r", 8)
	_, e2 := n.Counter("c")
	_, e3 := n.Barrier("b", 2)
	_, e4 := n.Mutex("m")
	_, e5 := n.Dir("d")
	_, e6 := n.Members()
	_, e7 := free.Lock(t.Context())
	_, e8 := free.TryLock()
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8, b.Wait(t.Context()), unlock()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("operation %d: %v", i+1, err)
		}
	}
	if n.Leader() || n.Number() != firstNumber || prefixOf(n.Number()) != "500000" || n.Spec().Key != "job" {
		t.Errorf("%v %d %s %s", n.Leader(), n.Number(), prefixOf(n.Number()), n.Spec().Key)
	}
	// The mutex that was held went with the namespace.
	again, err := other.Mutex("m")
	if err != nil {
		t.Fatal(err)
	}
	if unlock, err := again.TryLock(); unlock == nil || err != nil {
		t.Error("still locked", err)
	}
}

func TestConcurrentClose(t *testing.T) {
	root := ownRoot(t)
	for range 50 {
		n, err := Join(t.Context(), Spec{Key: "job"})
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error)
		for range 8 {
			go func() {
				_, _ = n.Counter("c")
				_, _ = n.Members()
				errs <- n.Close()
			}()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	}
	mustBeEmptyAfterGC(t, root)
}
