package deflate

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestArm64WritesSameStreams runs the comparison with the recorded hashes for arm64 by an emulator.
func TestArm64WritesSameStreams(t *testing.T) {
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): links a test for arm64 and emulates it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("qemu-user-static is for Linux")
	}
	var emulator string
	for _, name := range []string{"qemu-aarch64-static", "qemu-aarch64"} {
		if path, err := exec.LookPath(name); err == nil {
			emulator = path
		}
	}
	if emulator == "" {
		t.Skip("qemu-user-static is not installed")
	}
	program := filepath.Join(t.TempDir(), "deflate.test")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(emulator, program, "-test.run", "^Test(StreamsNeverChange|ReuseChangesNoStream)$", "-test.v")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
