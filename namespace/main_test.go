//go:build unix

package namespace

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"leat/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(map[string]proctest.Func{"agent": agentMain, "walker": walkerMain, "gc": gcMain,
		"unwarned": childUnwarned})
	goleak.VerifyTestMain(m)
}

// childUnwarned claims a directory, and leaves warnings to the default.
func childUnwarned(args []string) error {
	n, err := Join(context.Background(), Spec{Key: "unwarned", Dirs: []Dir{{Path: args[0], Remote: "s3://bucket"}}})
	if err != nil {
		return err
	}
	return n.Close()
}

// ownRoot gives the test a runtime folder of its own, in memory where the machine has such a file
// system.
func ownRoot(t testing.TB) string {
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
