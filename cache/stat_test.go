//go:build linux

package cache

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func statOf(t testing.TB, f *os.File) *unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &st))
	return &st
}

func freeBytes(t testing.TB, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * st.Bsize
}

// freeMemory is what the machine has for new processes, if it is known.
func freeMemory() (bytes int64, known bool) {
	b, _ := os.ReadFile("/proc/meminfo")
	_, after, known := strings.Cut(string(b), "MemAvailable:")
	if !known {
		return 0, false
	}
	_, err := fmt.Sscanf(after, "%d kB", &bytes)
	return bytes << 10, err == nil
}

// smallFS mounts a file system of a few MiB.
func smallFS(t *testing.T, kind string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	switch kind {
	case "tmpfs":
		if err := unix.Mount("leat-test", dir, "tmpfs", 0, "size=4m"); err != nil {
			t.Skipf("mounting tmpfs: %v", err)
		}
	default:
		image := t.TempDir() + "/image"
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, 16<<20))
		if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
			t.Skipf("mkfs.ext4: %v\n%s", err, out)
		}
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Skipf("mounting ext4: %v\n%s", err, out)
		}
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	return dir
}

// passFile has a child attach a file that it gets as descriptor 3.
func passFile(f *os.File) ([]byte, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LEAT_PROCTEST=passed")
	cmd.ExtraFiles = []*os.File{f}
	return cmd.CombinedOutput()
}
