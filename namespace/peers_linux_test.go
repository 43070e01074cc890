package namespace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"leat/internal/proctest"
)

// Each of these is a failure of MosaicML streaming's get_shm_prefix, reproduced there (design:
// peers.md).

// Streaming: "Reused local directory", after 0.73 s.
func TestStreamingRunAfterKillOfAllRanks(t *testing.T) {
	root := ownRoot(t)
	dir := t.TempDir()
	const ranks = 8
	rounds := proctest.Rounds(8, 20, 60)
	spec := func(i int) orderSpec { return orderSpec{Key: "job", Ranks: rank(i, ranks), Dirs: write(dir)} }
	run, next := newAgents(t, ranks), newAgents(t, ranks)
	var slowest time.Duration
	for round := range rounds {
		for i, got := range all(run, func(i int) order { return order{Op: "join", Spec: spec(i)} }) {
			if got.Err != "" {
				t.Fatalf("round %d, rank %d: %s", round, i, got.Err)
			}
		}
		run[0].must(order{Op: "add", Name: "x", N: 1})
		// The leader first, last, or anywhere.
		sequence := rand.Perm(ranks)
		switch round % 3 {
		case 0:
			slices.Sort(sequence)
		case 1:
			slices.Sort(sequence)
			slices.Reverse(sequence)
		}
		for _, i := range sequence {
			run[i].kill()
		}
		// In the very next instruction, without waiting for anyone's end.
		for i, a := range next {
			a.send(order{Op: "join", Spec: spec(i)})
		}
		for i, a := range next {
			got := a.receive()
			if got.Err != "" {
				t.Fatalf("round %d, rank %d after the kill: %s", round, i, got.Err)
			}
			slowest = max(slowest, got.Took)
			if got.Leader != (i == 0) {
				t.Errorf("round %d: rank %d leads: %v", round, i, got.Leader)
			}
		}
		if v := next[0].must(order{Op: "load", Name: "x"}).Value; v != 0 {
			t.Errorf("round %d: the killed run's counter is %d in the next one", round, v)
		}
		for _, a := range append(run, next...) {
			_ = syscall.Kill(a.pid, syscall.SIGKILL)
			a.cmd.Wait()
		}
		run, next = newAgents(t, ranks), newAgents(t, ranks)
	}
	t.Logf("%d rounds, slowest of all joins after the kill %v", rounds, slowest)
	mustBeEmptyAfterGC(t, root)
}

// Streaming accepts them all.
func TestStreamingSecondNameOfDirectory(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	dir := mkdirs(t, base, "data", "train")
	symlink(t, dir, filepath.Join(base, "link"))
	symlink(t, filepath.Join(base, "data"), filepath.Join(base, "above"))
	mkdirs(t, dir, "shard")
	mkdirs(t, base, "data", "training")
	holder, other := newAgent(t, nil), newAgent(t, nil)
	holder.join(orderSpec{Key: "job", Dirs: write(dir)})
	for name, c := range map[string]struct{ path, how string }{
		"itself":         {dir, "is"},
		"trailing slash": {dir + "/", "is"},
		"double slash":   {base + "//data///train", "is"},
		"dot":            {dir + "/.", "is"},
		"dot dot":        {dir + "/shard/..", "is"},
		"symlink":        {base + "/link", "is"},
		"linked parent":  {base + "/above/train", "is"},
		"nested":         {dir + "/shard", "lies inside"},
		"nested, new":    {base + "/link/new/deep", "lies inside"},
		"parent":         {base + "/data", "contains"},
		"parent's link":  {base + "/above/", "contains"},
		"grandparent":    {base, "contains"},
	} {
		got := other.tryJoin(orderSpec{Key: "other", Dirs: write(c.path)})
		if got.Claimed == nil {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if got.Claimed.How != c.how || got.Claimed.Theirs != dir || got.Claimed.Holder.PID != holder.pid ||
			got.Took > 20*time.Second {
			t.Errorf("%s: %+v after %v", name, got.Claimed, got.Took)
		}
	}
	// A name that only begins alike is another directory.
	other.join(orderSpec{Key: "other", Dirs: write(base + "/data/training")})
}

func TestStreamingBindMount(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	dir, at := mkdirs(t, base, "data", "train"), mkdirs(t, base, "mnt")
	bind(t, dir, at)
	holder, other := newAgent(t, nil), newAgent(t, nil)
	holder.join(orderSpec{Key: "job", Dirs: write(dir)})
	for path, how := range map[string]string{at: "is", at + "/new": "lies inside"} {
		if got := other.tryJoin(orderSpec{Key: "other", Dirs: write(path)}); got.Claimed == nil ||
			got.Claimed.How != how {
			t.Errorf("%s: %+v", path, got)
		}
	}
	holder.must(order{Op: "close"})
	// The other way round: what lies above the mount's source contains what is claimed by way of
	// the mount.
	holder.join(orderSpec{Key: "job", Dirs: write(at)})
	if got := other.tryJoin(orderSpec{Key: "other", Dirs: write(base + "/data")}); got.Claimed == nil ||
		got.Claimed.How != "contains" {
		t.Errorf("above the source: %+v", got)
	}
	holder.must(order{Op: "close"})
}

// Streaming: the third job gets the directory of the first, since its scan ends at the hole.
func TestStreamingGapInNumbers(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	list := newAgents(t, 4)
	numbers := map[int]bool{}
	for i, a := range list[:3] {
		n := a.join(orderSpec{Key: fmt.Sprint("job", i), Dirs: write(fmt.Sprint(base, "/", i))}).Number
		if numbers[n] {
			t.Fatalf("number %d twice", n)
		}
		numbers[n] = true
	}
	list[0].must(order{Op: "close"}) // the first number is a hole now
	for i := 1; i < 3; i++ {
		if got := list[3].tryJoin(orderSpec{Key: "late", Dirs: write(fmt.Sprint(base, "/", i))}); got.Claimed == nil {
			t.Errorf("directory %d: %+v", i, got)
		}
	}
	if got := list[3].join(orderSpec{Key: "late", Dirs: write(base + "/0")}); got.Number != firstNumber {
		t.Errorf("the number is %d: the freed one, %d, is tried first", got.Number, firstNumber)
	}
}

// Streaming: 8 to 37 % of the jobs die. Here four processes that run already are released by the
// clock, and join and leave round after round.
func TestStreamingJobsStartTogether(t *testing.T) {
	root := ownRoot(t)
	base := t.TempDir()
	rounds := proctest.Rounds(50, 300, 1000)
	list := newAgents(t, 4)
	failed, retried := 0, 0
	for round := range rounds {
		at := time.Now().Add(500 * time.Microsecond).UnixNano()
		numbers := map[int]bool{}
		for i, got := range all(list, func(i int) order {
			return order{Op: "join", At: at,
				Spec: orderSpec{Key: fmt.Sprintf("job-%d-%d", round, i),
					Dirs: []Dir{{fmt.Sprint(base, "/", i), "s3://bucket"}, {base + "/common", ""}}}}
		}) {
			if got.Err != "" {
				failed++
				t.Errorf("round %d, job %d: %s", round, i, got.Err)
				continue
			}
			if numbers[got.Number] {
				t.Errorf("round %d: number %d twice", round, got.Number)
			}
			numbers[got.Number] = true
			if got.Took > 5*time.Millisecond {
				retried++
			}
		}
		for _, got := range all(list, func(int) order { return order{Op: "close"} }) {
			if got.Err != "" {
				t.Fatalf("round %d: %s", round, got.Err)
			}
		}
	}
	t.Logf("%d of %d rounds of 4 failed, %d joins took more than 5 ms", failed, rounds, retried)
	mustBeEmptyAfterGC(t, root)
}

// The same, each start a new process.
func TestStreamingProcessesStartTogether(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		var list [4]*proctest.Command
		for i := range list {
			list[i] = proctest.New("walker", "once", fmt.Sprintf("job-%d-%d", round, i),
				fmt.Sprint(base, "/", i)).Start(t)
		}
		for i, c := range list {
			if _, output, err := c.Wait(); err != nil {
				t.Errorf("round %d, job %d: %v\n%s", round, i, err, output)
			}
		}
	}
}

// Streaming: 34 of 40 starts fail without torch.distributed.
func TestStreamingRanksStartInAnyOrder(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	const ranks = 8
	list := newAgents(t, ranks)
	for name, c := range map[string]struct {
		order []int
		pause time.Duration
	}{
		"the leader first, at once":           {[]int{0, 1, 2, 3, 4, 5, 6, 7}, 0},
		"the leader last, at once":            {[]int{7, 6, 5, 4, 3, 2, 1, 0}, 0},
		"the leader first, one after another": {[]int{0, 1, 2, 3, 4, 5, 6, 7}, 20 * time.Millisecond},
		"the leader last, one after another":  {[]int{7, 6, 5, 4, 3, 2, 1, 0}, 20 * time.Millisecond},
		"the leader in the middle":            {[]int{3, 1, 7, 0, 2, 6, 4, 5}, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for _, i := range c.order {
				list[i].send(order{Op: "join", Spec: orderSpec{Key: "job", Ranks: rank(i, ranks), Dirs: write(dir)}})
				time.Sleep(c.pause)
			}
			for i, a := range list {
				got := a.receive()
				if got.Err != "" || got.Leader != (i == 0) || got.Number != firstNumber {
					t.Fatalf("rank %d: %+v", i, got)
				}
			}
			// They share the same memory, and their barrier needs no library either.
			for i, got := range all(list, func(int) order {
				return order{Op: "check rounds", Name: "b", N: ranks, Value: 20, Timeout: time.Minute}
			}) {
				if got.Err != "" {
					t.Errorf("rank %d: %s", i, got.Err)
				}
			}
			for _, got := range all(list, func(int) order { return order{Op: "close"} }) {
				if got.Err != "" {
					t.Error(got.Err)
				}
			}
		})
	}
}

// Streaming: its clean-up call deletes live jobs' memory.
func TestStreamingCleanUpKeepsLiveJobs(t *testing.T) {
	root := ownRoot(t)
	base := t.TempDir()
	time4 := 3 * time.Second
	switch {
	case testing.Short():
		time4 = time.Second
	case os.Getenv("LEAT_TEST_DIST") != "":
		time4 = 8 * time.Second
	}
	until := fmt.Sprint(time.Now().Add(time4).UnixNano())
	var workers []*proctest.Command
	for range 2 {
		workers = append(workers, proctest.New("gc", until).Start(t))
	}
	for i := range 4 {
		workers = append(workers, proctest.New("walker", "shared things", until, fmt.Sprint(base, "/", i),
			fmt.Sprint("job", i)).Start(t))
	}
	// And jobs that are killed, so that there is something to clean.
	killed := 0
	for end := time.Now().Add(time4); time.Now().Before(end); killed++ {
		a := newAgent(t, nil)
		a.join(orderSpec{Key: "killed", Dirs: write(base + "/killed")})
		a.must(order{Op: "add", Name: "c", N: 1})
		a.killWait()
	}
	for _, w := range workers {
		if _, output, err := w.Wait(); err != nil {
			t.Errorf("%v\n%s", err, output)
		} else {
			t.Log(strings.TrimSpace(output))
		}
	}
	t.Logf("%d jobs were killed", killed)
	mustBeEmptyAfterGC(t, root)
}

// Streaming: torn blocks stop everyone.
func TestStreamingTornRecords(t *testing.T) {
	root := ownRoot(t)
	base := t.TempDir()
	good, err := encodeRecord(record{ID: strings.Repeat("0", 32), Key: "torn", Number: 3,
		Claims: []claim{{Path: base, Exclusive: true}}}, minSlots)
	if err != nil {
		t.Fatal(err)
	}
	whole := append(good, make([]byte, minSlots*slotSize)...)
	jobs := filepath.Join(root, "jobs")
	first, err := Join(t.Context(), Spec{Key: "first"}) // which makes the directories
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	changed := func(at int, with ...byte) []byte {
		b := append([]byte(nil), whole...)
		copy(b[at:], with)
		return b
	}
	torn := map[string][]byte{
		"empty":          nil,
		"one byte":       {'L'},
		"magic only":     whole[:8],
		"head only":      whole[:recordHead],
		"half a record":  whole[:recordHead+20],
		"no table":       good,
		"half a table":   whole[:len(good)+100],
		"zeros":          make([]byte, len(whole)),
		"garbage":        []byte(strings.Repeat("garbage ", 3000)),
		"other magic":    changed(0, 'X'),
		"wrong checksum": changed(20, 1, 2, 3, 4),
		"wrong byte":     changed(recordHead+5, 'X'),
		"huge length":    changed(8, 0xff, 0xff, 0xff, 0xff),
		"long length":    changed(8, 0xff, 0xff, 0x0f, 0),
		"huge table":     changed(12, 0, 0xf0, 0xff, 0xff),
		"huge slots":     changed(16, 0xff, 0xff, 0xff, 0xff),
		"no slots":       changed(16, 0, 0, 0, 0),
	}
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(jobs, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, b := range torn {
		t.Run(what, func(t *testing.T) {
			// Under another's name, with a live job that collides, so that all records are read.
			put("torn", b)
			a, err := Join(t.Context(), Spec{Key: "a", Dirs: write(base + "/x")})
			if err != nil {
				t.Fatal(err)
			}
			put("torn", b) // the first may have swept it
			warned := 0
			_, err = Join(t.Context(), Spec{Key: "b", Dirs: write(base + "/x"), Logger: warnTo(func(err error) {
				warned++
				if !strings.Contains(err.Error(), filepath.Join(jobs, "torn")) {
					t.Error(err)
				}
			})})
			if !errors.As(err, new(*ClaimedError)) || !strings.Contains(err.Error(), base+"/x is in use") {
				t.Errorf("the one who collides: %v", err)
			}
			if warned != 1 {
				t.Errorf("%d warnings", warned)
			}
			list, problems := List()
			if len(list) != 1 || len(problems) != 1 || list[0].Key != "a" {
				t.Errorf("listed: %+v, %v", list, problems)
			}
			if _, err := GC(false); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(jobs, "torn")); err == nil {
				t.Error("GC leaves it")
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			// Under the job's own name: for one who follows or leads, and for a pair of leader and
			// follower.
			put(jobFile("c", ""), b)
			begin := time.Now()
			c, err := Join(t.Context(), Spec{Key: "c", Dirs: write(base + "/x")})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			put(jobFile("d", ""), b)
			done := make(chan error)
			go func() {
				f, err := Join(t.Context(), Spec{Key: "d", Ranks: rank(1, 2), Wait: 2 * time.Minute})
				if err == nil {
					err = f.Close()
				}
				done <- err
			}()
			time.Sleep(time.Millisecond)
			d, err := Join(t.Context(), Spec{Key: "d", Ranks: rank(0, 2)})
			if err := <-done; err != nil {
				t.Errorf("the follower: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Streaming: another user's names stop you.
func TestStreamingFilesOfOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	root := ownRoot(t)
	dir := t.TempDir()
	first, err := Join(t.Context(), Spec{Key: "first"}) // which makes the directory leat's
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	jobs := mkdirs(t, root, "jobs")
	mkdirs(t, root, "claims")
	for _, d := range []string{"jobs", "claims"} {
		if err := os.Chmod(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(jobs, "foreign")
	if err := os.WriteFile(foreign, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n, err := Join(t.Context(), Spec{Key: "job", Dirs: write(dir)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := GC(false); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(foreign); err != nil || string(b) != "theirs" {
		t.Errorf("it was touched: %q %v", b, err)
	}
	// A job's own name that another user has taken is an error that names the file.
	mine := filepath.Join(jobs, jobFile("job", ""))
	if err := os.Rename(foreign, mine); err != nil {
		t.Fatal(err)
	}
	_, err = Join(t.Context(), Spec{Key: "job", Ranks: rank(0, 2), Dirs: write(dir), Wait: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), mine) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(mine); err != nil || string(b) != "theirs" {
		t.Errorf("it was touched: %q %v", b, err)
	}
}

func TestStreamingForeignRuntimeDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make directories of another user")
	}
	root := ownRoot(t)
	if err := os.Chown(root, 4711, 4711); err != nil {
		t.Fatal(err)
	}
	_, err := Join(t.Context(), Spec{Key: "job"})
	if err == nil || !strings.Contains(err.Error(), root+": belongs to user 4711") || !strings.Contains(err.Error(),
		"LEAT_RUNTIME_DIR") {
		t.Error(err)
	}
	if _, problems := List(); len(problems) != 1 {
		t.Error(problems)
	}
	if _, err := GC(false); err == nil {
		t.Error("GC takes another user's directory")
	}
	names, err := os.ReadDir(root)
	if err != nil || len(names) > 0 {
		t.Errorf("something was made in it: %v %v", names, err)
	}
}

// mustBeEmptyAfterGC runs GC and checks that nothing but empty files of locks is left in the
// runtime directory.
func mustBeEmptyAfterGC(t testing.TB, root string) {
	t.Helper()
	would, err := GC(true)
	removed, err1 := GC(false)
	if err := errors.Join(err, err1); err != nil || !slices.Equal(removed, would) {
		t.Errorf("removed %q, not %q: %v", removed, would, err)
	}
	err = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		switch rel, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case rel == ".", rel == ".leat", rel == "claims", rel == "jobs":
		case filepath.Dir(rel) == "claims" && info.Mode().IsRegular() && info.Size() == 0:
		default:
			t.Errorf("left after GC: %s, %d bytes", rel, info.Size())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
