package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// removeRoot does what rm -rf does: it may come back with an error where something is made while it
// works.
func removeRoot(t testing.TB, root string) {
	t.Helper()
	for range 100 {
		if os.RemoveAll(root) == nil {
			return
		}
	}
	t.Fatalf("%s can't be removed", root)
}

// holdsAgain waits until another job is refused the directory.
func holdsAgain(t testing.TB, dir string) {
	t.Helper()
	begin := time.Now()
	probe := newAgent(t, nil)
	eventually(t, "the claims in the new directory", func() bool {
		jobs, _ := List()
		return len(jobs) > 0
	})
	if got := probe.tryJoin(orderSpec{Key: "another", Dirs: write(dir)}); got.Claimed == nil {
		t.Fatalf("another job: %+v", got)
	}
	t.Logf("claimed again after %v", time.Since(begin))
}

func TestRenewClaimsAfterRemoval(t *testing.T) {
	root := ownRoot(t)
	dir := t.TempDir()
	job := newAgents(t, 3)
	spec := func(i int) orderSpec { return orderSpec{Key: "job", Ranks: rank(i, 4), Dirs: write(dir)} }
	for i, a := range job {
		a.join(spec(i))
		a.must(order{Op: "add", Name: "c", N: 1})
	}
	wait := order{Op: "wait", Name: "b", N: 3, Value: 5, Timeout: time.Minute}
	for _, got := range all(job, func(int) order { return wait }) {
		if got.Err != "" {
			t.Fatal(got.Err)
		}
	}
	begin := time.Now()
	removeRoot(t, root)
	holdsAgain(t, dir)
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	// Every member renews its own.
	eventually(t, "all members", func() bool {
		jobs, _ := List()
		return len(jobs) == 1 && len(jobs[0].Members) == 3
	})
	for i, a := range job {
		list := a.must(order{Op: "warnings"}).List
		if len(list) != 1 || !strings.Contains(list[0], root+" was removed while job job was running") {
			t.Errorf("rank %d warns: %q", i, list)
		}
		if got := a.try(order{Op: "lost", Timeout: 50 * time.Millisecond}); !got.is("deadline") {
			t.Errorf("rank %d has lost its claims: %+v", i, got)
		}
	}
	// What the members had goes on.
	for _, got := range all(job, func(int) order { return wait }) {
		if got.Err != "" {
			t.Errorf("the barrier: %s", got.Err)
		}
	}
	if v := job[1].must(order{Op: "load", Name: "c"}).Value; v != 3 {
		t.Errorf("the counter is %d", v)
	}
	job[0].must(order{Op: "lock", Name: "m"})
	if got := job[1].must(order{Op: "try lock", Name: "m"}); got.Value != 0 {
		t.Error("two have the mutex")
	}
	// No process can join the job any more; the error says why.
	late := newAgent(t, nil)
	got := late.tryJoin(spec(3))
	if !got.is("in use") || !strings.Contains(got.Err, "which was removed") {
		t.Errorf("a newcomer: %+v", got)
	}
	// Deaths are seen as before, and the claims hold until the last one's.
	job[0].killWait()
	if got := job[1].try(order{Op: "leader gone", Timeout: time.Minute}); got.Err != "" {
		t.Errorf("the leader's end: %+v", got)
	}
	job[1].killWait()
	if got := late.tryJoin(orderSpec{Key: "another", Dirs: write(dir)}); got.Claimed == nil {
		t.Errorf("while the last member lives: %+v", got)
	}
	job[2].must(order{Op: "close"})
	late.join(orderSpec{Key: "another", Dirs: write(dir)})
	late.must(order{Op: "close"})
	mustBeEmptyAfterGC(t, root)
}

func TestRenewAfterRepeatedRemoval(t *testing.T) {
	root := ownRoot(t)
	dir := t.TempDir()
	n, err := Join(t.Context(), Spec{Key: "job", Dirs: write(dir)})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := descriptors()
	times := 3
	if testing.Short() {
		times = 1
	}
	for range times {
		removeRoot(t, root)
		eventually(t, "the claims", func() bool {
			jobs, _ := List()
			return len(jobs) == 1 && jobs[0].Live
		})
	}
	select {
	case <-n.Lost():
		t.Fatal(n.Err())
	default:
	}
	// The second and third life take the place of each other, not of the first, whose table the
	// members use.
	if after, _ := descriptors(); after > 2*before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if n.Number() != firstNumber {
		t.Errorf("the number is %d now", n.Number())
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	mustBeEmptyAfterGC(t, root)
}

func TestLostAfterRemovalAndAnotherClaim(t *testing.T) {
	root := ownRoot(t)
	dir := t.TempDir()
	job := newAgents(t, 2)
	for i, a := range job {
		a.join(orderSpec{Key: "job", Ranks: rank(i, 2), Dirs: write(dir)})
	}
	other := newAgent(t, nil)
	removeRoot(t, root)
	other.join(orderSpec{Key: "other", Dirs: write(dir)})
	for i, a := range job {
		got := a.try(order{Op: "lost", Timeout: time.Minute})
		if got.Claimed == nil || got.Claimed.Holder.PID != other.pid || !strings.Contains(got.Err,
			"claims of job job were lost") {
			t.Errorf("rank %d: %+v", i, got)
		}
		// The warning comes after Lost is closed.
		eventually(t, fmt.Sprintf("rank %d to be warned", i), func() bool {
			list := a.must(order{Op: "warnings"}).List
			return len(list) == 2 && strings.Contains(list[1], "were lost")
		})
	}
	// The end of the leader is still noticed, and leaving in order works.
	job[0].must(order{Op: "close"})
	if got := job[1].try(order{Op: "leader gone", Timeout: time.Minute}); got.Err != "" {
		t.Errorf("%+v", got)
	}
	job[1].must(order{Op: "close"})
	other.must(order{Op: "add", Name: "c", N: 1})
	other.must(order{Op: "close"})
	mustBeEmptyAfterGC(t, root)
}

// Leaving takes nothing from a job that has the same number in the new directory.
func TestLeaveAfterRemoval(t *testing.T) {
	root := ownRoot(t)
	old, err := Join(t.Context(), Spec{Key: "old"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Counter("c"); err != nil {
		t.Fatal(err)
	}
	removeRoot(t, root)
	next, err := Join(t.Context(), Spec{Key: "next"})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if next.Number() != old.Number() {
		t.Fatalf("numbers %d and %d: the test is useless", next.Number(), old.Number())
	}
	c, err := next.Counter("c")
	if err != nil {
		t.Fatal(err)
	}
	c.Store(7)
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	again, err := Join(t.Context(), Spec{Key: "next"})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	c2, err := again.Counter("c")
	if err != nil {
		t.Fatal(err)
	}
	if c2.Load() != 7 {
		t.Errorf("the counter is %d", c2.Load())
	}
}

func TestPartlyRemovedRuntimeDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes five seconds")
	}
	root := ownRoot(t)
	dir := t.TempDir()
	warned := make(chan error, 10)
	n, err := Join(t.Context(), Spec{Key: "job", Dirs: write(dir), Logger: warnTo(func(err error) { warned <- err })})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := os.RemoveAll(filepath.Join(root, "claims")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.Lost():
	case <-time.After(time.Minute):
		t.Fatal("Lost was not closed")
	}
	if err := n.Err(); err == nil || !strings.Contains(err.Error(), "a part of "+root) {
		t.Error(err)
	}
	if err := <-warned; !strings.Contains(err.Error(), "were lost") {
		t.Error(err)
	}
}

// The working directory may change, and directories be renamed, without the claims becoming those
// of other ones.
func TestRenewalClaimsOpenDirectories(t *testing.T) {
	root := ownRoot(t)
	base := t.TempDir()
	mkdirs(t, base, "elsewhere")
	t.Chdir(base)
	n, err := Join(t.Context(), Spec{Key: "job", Dirs: write("data")})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	t.Chdir(base + "/elsewhere")
	if err := os.Rename(base+"/data", base+"/renamed"); err != nil {
		t.Fatal(err)
	}
	removeRoot(t, root)
	eventually(t, "the claims", func() bool {
		jobs, _ := List()
		return len(jobs) == 1
	})
	var names []string
	for _, dir := range []string{base, base + "/elsewhere"} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names = append(names, e.Name())
		}
	}
	if fmt.Sprint(names) != "[elsewhere renamed]" {
		t.Errorf("something was made: %v", names)
	}
	if got := newAgent(t, nil).tryJoin(orderSpec{Key: "other", Dirs: write(base + "/renamed")}); got.Claimed == nil {
		t.Errorf("%+v", got)
	}
}
