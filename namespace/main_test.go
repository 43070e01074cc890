//go:build unix

package namespace

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"leat/internal/proctest"
)

func TestMain(m *testing.M) {
	proctest.Main(map[string]proctest.Func{"agent": agentMain, "walker": walkerMain, "gc": gcMain,
		"warned": childWarned})
	goleak.VerifyTestMain(m)
}

// childWarned claims a directory.
func childWarned(args []string) error {
	n, err := Join(context.Background(), Spec{Key: "warned", Logger: slog.Default(),
		Dirs: []Dir{{Path: args[0], Remote: "s3://bucket"}}})
	if err != nil {
		return err
	}
	return n.Close()
}

// ownRoot gives the test a runtime directory of its own, in memory where the machine has such a
// file system.
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
