package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"leat/internal/fault"
)

func TestDescriptorsOfManyJobs(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	live := 300
	if testing.Short() {
		live = 30
	}
	job := func() []int {
		var counts []int
		leader, follower := newAgent(t, nil), newAgent(t, nil)
		for i, a := range []*agent{leader, follower} {
			before := a.must(order{Op: "descriptors"}).Value
			a.join(orderSpec{Key: "job", Ranks: rank(i, 2),
				Dirs: append(write(base+"/job"), Dir{base + "/common", ""})})
			a.must(order{Op: "add", Name: "c", N: 1})
			counts = append(counts, int(a.must(order{Op: "descriptors"}).Value-before))
		}
		for _, a := range []*agent{leader, follower} {
			a.must(order{Op: "close"})
			a.must(order{Op: "descriptors"})
		}
		return counts
	}
	none := job()
	holder := newAgent(t, nil) // one process holds all of them
	for i := range live {
		got := holder.try(order{Op: "join", Handle: i,
			Spec: orderSpec{Key: fmt.Sprint("live", i),
				Dirs: []Dir{{fmt.Sprintf("%s/%d", base, i), "s3://bucket"}, {base + "/common", ""}}}})
		if got.Err != "" {
			t.Fatalf("job %d: %s", i, got.Err)
		}
	}
	many := job()
	t.Logf("leader and follower open %v with no other live job, %v with %d", none, many, live)
	for i := range none {
		if many[i] > none[i]+1 || none[i] > 30 { // one may be where the sweep of others' leftovers would go on
			t.Errorf("%v, %v with %d live jobs", none, many, live)
		}
	}
}

func TestJoinWithoutProc(t *testing.T) {
	ownRoot(t)
	fault.Set(func(point string) error {
		if point == "lockfile.no proc" {
			return fs.ErrNotExist
		}
		return nil
	})
	defer fault.Set(nil)
	_, err := Join(t.Context(), Spec{Key: "job"})
	if !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrNoLeader) || !strings.Contains(fmt.Sprint(err), "/proc") {
		t.Errorf("%v, expected that /proc is not mounted", err)
	}
}

func TestDescriptorsAfterClose(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	once := func(i int) {
		spec := Spec{Key: fmt.Sprint("job", i),
			Dirs: []Dir{{fmt.Sprintf("%s/%d/a", base, i), "s3://bucket"}, {base, ""}}}
		spec.Dirs = spec.Dirs[:1]
		n, err := Join(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		follower, err := Join(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []*Namespace{n, follower} {
			if _, err := n.Region("r", 1000); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Dir("d"); err != nil {
				t.Fatal(err)
			}
			m, err := n.Mutex("m")
			if err != nil {
				t.Fatal(err)
			}
			unlock, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := unlock(); err != nil {
				t.Fatal(err)
			}
		}
		// And what fails leaves nothing open either.
		for _, bad := range []Spec{
			{Key: "other", Dirs: spec.Dirs},
			{Key: spec.Key},
			{Key: "other", Dirs: []Dir{{base + "/x", ""}, {"/proc/self/nothing/here", ""}}},
			{Key: "other", Files: []string{base + "/nothing/here.tif"}},
			{Key: "other", Name: "bad name"},
			{Key: spec.Key, Ranks: rank(0, 2), Dirs: spec.Dirs},
		} {
			if m, err := Join(t.Context(), bad); err == nil {
				t.Errorf("%+v is possible", bad)
				m.Close()
			}
		}
		for _, n := range []*Namespace{n, follower} {
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	once(0)
	before, err := descriptors()
	if err != nil {
		t.Fatal(err)
	}
	maps := mappings(t)
	for i := range 20 {
		once(i)
	}
	if after, _ := descriptors(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if after := mappings(t); after != maps {
		t.Errorf("%d mapped files of the runtime directory, %d before", after, maps)
	}
	goleak.VerifyNone(t)
}

// mappings counts this process's mappings of files below the runtime directory.
func mappings(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), os.Getenv("LEAT_RUNTIME_DIR"))
}

func TestTwoNamespacesOfJob(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	list := newAgents(t, 2)
	numbers := map[string]int{}
	for i, a := range list { // each process in both
		for handle, name := range []string{"train", "validation"} {
			got := a.must(order{Op: "join", Handle: handle,
				Spec: orderSpec{Key: "job", Name: name, Ranks: rank(i, 2), Dirs: write(base + "/" + name)}})
			if i == 0 {
				numbers[name] = got.Number
			} else if got.Number != numbers[name] {
				t.Errorf("%s: number %d, the leader has %d", name, got.Number, numbers[name])
			}
			a.must(order{Op: "add", Handle: handle, Name: "c", N: 1 + handle})
		}
	}
	if numbers["train"] == numbers["validation"] {
		t.Errorf("both have number %d", numbers["train"])
	}
	for handle, want := range []int64{2, 4} {
		if v := list[0].must(order{Op: "load", Handle: handle, Name: "c"}).Value; v != want {
			t.Errorf("namespace %d: %d, not %d", handle, v, want)
		}
	}
	list[0].must(order{Op: "close", Handle: 0})
	list[0].must(order{Op: "load", Handle: 1, Name: "c"})
	// A claim of the one is refused to the other.
	if got := list[0].tryJoin(orderSpec{Key: "job", Name: "test", Ranks: rank(0, 2),
		Dirs: write(base + "/train")}); got.Claimed == nil || got.Claimed.Holder.Name != "train" {
		t.Errorf("%+v", got)
	}
}

func TestProcessWithSeveralMembers(t *testing.T) {
	ownRoot(t)
	dir := t.TempDir()
	var list []*Namespace
	for i := range 5 {
		n, err := Join(t.Context(), Spec{Key: "job", Dirs: write(dir)})
		if err != nil {
			t.Fatal(err)
		}
		if n.Leader() != (i == 0) || n.Number() != firstNumber {
			t.Errorf("member %d: leader %v, number %d", i, n.Leader(), n.Number())
		}
		list = append(list, n)
	}
	members, err := list[3].Members()
	if err != nil || len(members) != 5 {
		t.Errorf("%+v %v", members, err)
	}
	for _, n := range list {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestKeyAndRanksFromEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env  func(i int) []string
		key  string
		size int
	}{
		"torchrun": {func(i int) []string {
			return []string{"TORCHELASTIC_RUN_ID=none", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500",
				fmt.Sprint("RANK=", i), "WORLD_SIZE=3", fmt.Sprint("LOCAL_RANK=", i), "LOCAL_WORLD_SIZE=3"}
		}, "torchrun:127.0.0.1:29500", 3},
		"srun": {func(i int) []string {
			return []string{"SLURM_JOB_ID=77", "SLURM_STEP_ID=2", fmt.Sprint("SLURM_PROCID=", i),
				fmt.Sprint("SLURM_LOCALID=", i), "SLURM_NTASKS=3", "SLURM_NNODES=1", "SLURM_NODEID=0",
				"SLURM_STEP_TASKS_PER_NODE=3"}
		}, "slurm:77.2", 3},
	} {
		t.Run(name, func(t *testing.T) {
			ownRoot(t)
			clearLaunchers(t)
			dir := t.TempDir()
			list := newAgents(t, c.size)
			for i := c.size - 1; i >= 0; i-- { // the leader last
				list[i].send(order{Op: "join", Env: c.env(i), Spec: orderSpec{Dirs: write(dir)}})
			}
			for i, a := range list {
				got := a.receive()
				if got.Err != "" {
					t.Fatalf("rank %d: %s", i, got.Err)
				}
				if got.Key != c.key || got.Leader != (i == 0) || got.Ranks.Rank != i ||
					got.Ranks.LocalRanks != c.size || got.Number != firstNumber {
					t.Errorf("rank %d: %+v", i, got)
				}
			}
		})
	}
}

// clearLaunchers takes from the environment what a launcher around this test may have set.
func clearLaunchers(t *testing.T) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		for _, prefix := range []string{"SLURM_", "OMPI_", "PMI", "MPI_", "TORCHELASTIC_", "MASTER_", "PBS_",
			"AWS_BATCH_", "LEAT_JOB", "RANK", "LOCAL_", "WORLD_", "GROUP_", "NODE_RANK"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "")
			}
		}
	}
}

func TestChildJoinsByEnviron(t *testing.T) {
	ownRoot(t)
	clearLaunchers(t)
	dir := t.TempDir()
	parent, child, other := newAgent(t, nil), newAgent(t, nil), newAgent(t, nil)
	first := parent.join(orderSpec{Dirs: write(dir)})
	if len(first.Key) < 20 {
		t.Errorf("the key %q is easily had twice", first.Key)
	}
	env := parent.must(order{Op: "env"}).List
	got := child.must(order{Op: "join", Env: env, Spec: orderSpec{Dirs: write(dir)}})
	if got.Key != first.Key || got.Leader || got.Number != first.Number {
		t.Errorf("%+v, its parent %+v", got, first)
	}
	if got := other.join(orderSpec{}); got.Key == first.Key || got.Number == first.Number {
		t.Errorf("%+v, another %+v", got, first)
	}
}

func TestInvalidSpec(t *testing.T) {
	root := ownRoot(t)
	_, err := Join(t.Context(), Spec{Name: "a b", Dirs: []Dir{{}}, Files: []string{"x", ""}, Wait: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"a b"`, "directory 1", "file 2", "-1ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	for _, w := range []Ranks{{LocalRank: 2, LocalRanks: 2}, {Rank: -1}, {Workers: -3}} {
		if _, err := Join(t.Context(), Spec{Key: "job", Ranks: w}); err == nil {
			t.Errorf("%+v is possible", w)
		}
	}
	for _, key := range []string{" ", "a\nb", "a\xff", strings.Repeat("k", 257)} {
		if _, err := Join(t.Context(), Spec{Key: key}); err == nil || !strings.Contains(err.Error(), "Spec.Key") {
			t.Errorf("%q: %v", key, err)
		}
	}
	if list, err := filepath.Glob(root + "/*/*"); err != nil || len(list) > 0 {
		t.Errorf("something was made: %v", list)
	}
}
