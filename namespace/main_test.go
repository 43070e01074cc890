package namespace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(map[string]proctest.Func{"member": member})
	goleak.VerifyTestMain(m)
}

// member joins and waits to be killed: KEY LOCALRANK LOCALRANKS DIR REMOTE.
func member(args []string) error {
	rank, _ := strconv.Atoi(args[1])
	ranks, _ := strconv.Atoi(args[2])
	n, err := Join(context.Background(), Spec{Key: args[0], World: &World{LocalRank: rank, LocalRanks: ranks, Rank: rank, Ranks: ranks}, Dirs: []Local{{args[3], args[4]}}})
	if err != nil {
		return err
	}
	fmt.Println("joined", n.Prefix())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return n.Close()
}

// ownRoot gives the test a runtime folder of its own.
func ownRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "leat-test-")
	if err != nil {
		dir = t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("LEAT_RUNTIME_DIR", dir)
	return dir
}

func TestSmoke(t *testing.T) {
	root := ownRoot(t)
	dir := t.TempDir()
	begin := time.Now()
	a, err := Join(t.Context(), Spec{Key: "a", Dirs: []Local{{dir + "/x", "s3://bucket"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(begin))
	_, err = Join(t.Context(), Spec{Key: "b", Dirs: []Local{{dir + "/x/../x/y/", "s3://bucket"}}})
	var claimed *ClaimedError
	if !errors.As(err, &claimed) {
		t.Fatal(err)
	}
	t.Log(err)
	f, err := Join(t.Context(), Spec{Key: "a", Dirs: []Local{{dir + "/x", "s3://bucket"}}})
	if err != nil {
		t.Fatal(err)
	}
	if f.Leader() || f.Number() != a.Number() {
		t.Fatal("not followed")
	}
	c, err := f.Counter("c")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(3)
	c2, _ := a.Counter("c")
	if c2.Load() != 3 {
		t.Fatal(c2.Load())
	}
	jobs, problems := List()
	t.Logf("%+v %v", jobs, problems)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	<-f.LeaderGone()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	jobs, problems = List()
	if len(jobs) != 0 || len(problems) != 0 {
		t.Fatal(jobs, problems)
	}
	b, err := Join(t.Context(), Spec{Key: "b", Dirs: []Local{{dir + "/x/../x/y/", "s3://bucket"}}})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	names, _ := os.ReadDir(root)
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "0") {
			t.Error(n.Name())
		}
	}
}
